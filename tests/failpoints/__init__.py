"""Failpoints: a worker process that fails on purpose, before or after a commit or a call to a provider."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from app.settings import AccountSettings, Settings, load_accounts
from tests.failpoints.actions import Arms
from tests.failpoints.points import read_sites
from tests.failpoints.wrappers import FailingDatabase, FailingProvider
from workers.process.bootstrap import build_runtime
from workers.providers.ports import Provider
from workers.providers.registry import connect
from workers.runtime.runtime import Runtime

FOLDER = "FAILPOINTS_FOLDER"
"""The variable that names the folder of armed points."""
_THIS_MACHINE = ("127.0.0.1", "::1", "localhost")
Connect = Callable[[AccountSettings, Settings], Provider]


def build_failing(folder: Path, settings: Settings, *, connect_account: Connect = connect, **more: Any) -> Runtime:
    """As `build_runtime`, with a database and adapters that fail at the points that are armed in the folder."""
    assert folder.is_dir(), f"{folder} is no folder: nothing would be armed"
    for name, account in load_accounts(settings.config).items():
        where = urlsplit(account.endpoint_url or "").hostname
        assert where in _THIS_MACHINE, f"failpoints are for simulated clouds, and account {name!r} is at {where}"
    arms, sites = Arms(folder, settings.database_url), read_sites()

    def connect_failing(account: AccountSettings, of: Settings) -> Provider:
        return FailingProvider.over(connect_account(account, of), arms, sites)

    make_database = partial(FailingDatabase, arms=arms, sites=sites)
    return build_runtime(settings, make_database=make_database, connect_account=connect_failing, **more)
