"""Failpoints that some runs cannot reach, and why. Names are without `:before` and `:after`.

At all three clouds together every point has a scenario. A run at some of them lacks what only the others can show.
"""

from collections.abc import Mapping

_ACCOUNT = "only the simulated AWS can refuse our credentials or answer as another account"

REASONS: Mapping[str, str] = {
    "accounts.Accounts._pin:account_failed": _ACCOUNT,
    "accounts.Accounts.set_aside:account_failed": _ACCOUNT,
    "resolve_unknown._store_seen:commit": "reached where Google's operations tell of a VM that does not show; elsewhere the watch sees it first",
    "resolve_unknown.verify:presume_gone": "reached at Azure, which forgets a VM with its end; EC2 shows it for an hour, Google's operations tell of it",
}
