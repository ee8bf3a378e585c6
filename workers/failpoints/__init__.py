"""Failpoints: a process that fails on purpose, before or after a commit or a call to a provider.

Only for tests against simulated clouds. Where failpoints are off, the program uses the plain database and adapters.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from app.settings import AccountSettings, Settings, StartupError
from workers.database import WorkerDatabase
from workers.failpoints.actions import Arms
from workers.failpoints.points import read_sites
from workers.failpoints.wrappers import FailingDatabase, FailingProvider
from workers.providers.interfaces import Provider

_THIS_MACHINE = ("127.0.0.1", "::1", "localhost")
Connect = Callable[[AccountSettings, Settings], Provider]


@dataclass(frozen=True, slots=True)
class Failpoints:
    """Replacements of the database and of the connections to the accounts."""

    arms: Arms
    settings: Settings

    def database(self, *, pool_size: int) -> WorkerDatabase:
        """The database of the settings, which fails at armed points."""
        return FailingDatabase(self.settings.database_url, pool_size=pool_size, arms=self.arms, sites=read_sites())

    def connect(self, connect: Connect) -> Connect:
        """The same accounts, which fail at armed points."""
        sites = read_sites()
        return lambda account, settings: FailingProvider.over(connect(account, settings), self.arms, sites)


def switched_on(settings: Settings, accounts: Mapping[str, AccountSettings]) -> Failpoints | None:
    """The failpoints, or None unless GPULEASE_FAILPOINTS is set. Raises StartupError for an account at a real cloud."""
    if settings.failpoints is None:
        return None
    if not settings.failpoints.is_dir():
        raise StartupError(f"GPULEASE_FAILPOINTS: {settings.failpoints} is no folder")
    for name, account in accounts.items():
        if urlsplit(account.endpoint_url or "").hostname not in _THIS_MACHINE:
            raise StartupError(
                f"GPULEASE_FAILPOINTS makes processes fail on purpose and is for simulated clouds alone, "
                f"but the endpoint_url of account {name!r} is not on this machine"
            )
    return Failpoints(Arms(settings.failpoints, settings.database_url), settings)
