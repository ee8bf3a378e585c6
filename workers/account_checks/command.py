"""`gpulease-server check`: whether the configured accounts have what leases need, before the first lease.

The command needs the accounts file and cloud credentials, and no database. It changes nothing at the clouds.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from app.domain.account_checks import AccountCheck, failures
from app.observability.logs import configure_logs
from app.settings import AccountSettings, Settings, StartupError, load_accounts, load_settings
from workers.account_checks.account_checks import check_account
from workers.account_checks.report import as_json, summary, table
from workers.providers.registry import connect

_FAILED, _MISUSE = 1, 2
_NO_INSTALLATION = "gpulease-check"
_NOTE = (
    "note: the id of the installation is unknown. A policy that requires its tag refuses the launch here: "
    "name it with --installation or GPULEASE_INSTALLATION_ID\n"
)

Chosen = Sequence[tuple[AccountSettings, Sequence[str]]]
"""Accounts with the regions to check."""


def main(arguments: Sequence[str]) -> int:
    """0 when no check failed, 1 when one did, 2 with one line on stderr when nothing could be checked."""
    options = _options(arguments)
    try:
        settings = load_settings()
        chosen = choose(load_accounts(options.config or settings.config), options.account, options.region)
    except StartupError as error:
        sys.stderr.write(f"gpulease-server check: {error}\n")
        return _MISUSE
    installation = options.installation or settings.installation_id
    if installation is None:
        _announce(_NOTE)
    checks = _check(chosen, settings, installation or _NO_INSTALLATION, with_tables=not options.json)
    every = [check for of_account in checks.values() for check in of_account]
    sys.stdout.write(f"{as_json(checks)}\n" if options.json else f"\n{summary(every)}\n")
    return _FAILED if failures(every) else 0


def choose(accounts: Mapping[str, AccountSettings], name: str | None, region: str | None) -> Chosen:
    """The accounts and regions that the options name. Raises StartupError when there are none."""
    if not accounts:
        raise StartupError("no accounts: name the accounts file with --config or GPULEASE_CONFIG")
    if name is not None and name not in accounts:
        raise StartupError(f"no account is named {name!r}; there are {', '.join(accounts)}")
    named = [account for account in accounts.values() if name in (None, account.name)]
    chosen = [
        (account, [configured for configured in account.regions if region in (None, configured)]) for account in named
    ]
    if region is not None and not any(regions for _, regions in chosen):
        raise StartupError(f"no account has the region {region!r} in `regions`")
    return [(account, regions) for account, regions in chosen if regions]


def _check(
    chosen: Chosen, settings: Settings, installation: str, *, with_tables: bool
) -> dict[str, list[AccountCheck]]:
    """The checks by account. Prints each table as soon as its account is complete."""
    checks: dict[str, list[AccountCheck]] = {}
    for account, regions in chosen:
        provider = connect(account, settings)
        configure_logs("ERROR", sys.stderr)  # after the import of an SDK, which chooses levels of its own
        checks[account.name] = list(
            check_account(
                provider,
                regions,
                installation,
                announce=lambda part, name=account.name: _announce(f"checking {name}, {part} …\n"),
            )
        )
        if with_tables:
            sys.stdout.write("\n".join(table(account.name, checks[account.name])) + "\n")
            sys.stdout.flush()
    return checks


def _announce(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="gpulease-server check",
        description="Check the rights, images, subnets, quotas and regions of each account. Starts no VM.",
        epilog="Exit codes: 0 no check failed, 1 a check failed, 2 nothing could be checked. "
        "A check that no harmless call can make is shown as `?` and does not fail.",
    )
    parser.add_argument("--account", metavar="NAME", help="only this account")
    parser.add_argument("--region", help="only this region")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--config", type=Path, help="gpulease.toml with the accounts (default: GPULEASE_CONFIG)")
    parser.add_argument(
        "--installation", metavar="ID", help="id of the installation (default: GPULEASE_INSTALLATION_ID)"
    )
    return parser.parse_args(arguments)
