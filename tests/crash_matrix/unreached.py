"""Failpoints that some runs cannot reach, and why. Names are without `:before` and `:after`.

At all three clouds together every point has a scenario. A run at some of them lacks what only the others can show.
"""

from collections.abc import Mapping

_ACCOUNT = "only the simulated AWS can refuse our credentials or answer as another account"

REASONS: Mapping[str, str] = {
    "runtime.accounts.Accounts._pin:account_failed": _ACCOUNT,
    "runtime.accounts.Accounts.set_aside:account_failed": _ACCOUNT,
    "groups.coordinator.Coordinator._move:postpone": "reached after an exception that is a bug; tests/workers/groups/test_formation.py raises one",
    "observation.inventory._restore_term:write": "reached after a restore from a backup; chaos and tests/workers/test_restore.py have one",
    "observation.inventory._without_owned_elsewhere:vms_of": "reached when VMs are lost, or their account has another name; chaos loses them, tests/workers/runtime/test_brakes.py renames it",
    "record_batch.record:commit": "reached when a worker loses claims during a create call that is then refused for some slots; tests/workers/lifecycle/test_batches_meanwhile.py has late answers",
    "resolve_unknown._declare_dead:hurry_watch": "reached when a VM ended before anybody saw it, and a disk or an address is left; tests/workers/lifecycle/test_unknown_outcomes.py has such a VM",
    "resolve_unknown._write:commit": "reached where Google's operations tell of a VM that does not show; elsewhere the watch sees it first",
    "resolve_unknown.verify:presume_gone": "reached at Azure, which forgets a VM with its end; EC2 shows it for an hour, Google's operations tell of it",
}
