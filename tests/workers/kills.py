"""`python -m tests.workers.kills FOLDER SETTINGS`: a worker that dies at the points armed in the folder."""

import json
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from app.db.leases import claims
from app.domain.ids import LeaseId
from app.settings import load_settings
from tests.failpoints import build_failing
from tests.harness.forks import ForkServer, Program
from tests.workers.fleet import ACCOUNT, REGION
from workers.jobs.volumes import work_on_volumes
from workers.lifecycle.reconciler import Reconciler
from workers.observation.inventory import take_inventory
from workers.observation.watch import watch
from workers.providers.errors import ProviderError
from workers.runtime.runtime import Runtime

_MODULE = "tests.workers.kills"
_MOST_SECONDS = 300.0


def start_worker(forks: ForkServer, settings: dict[str, Any], folder: Path) -> Program:
    """A worker over these settings that works until it is killed."""
    argv = [sys.executable, "-m", _MODULE, str(folder), json.dumps(settings)]
    return forks.start(argv, os.environ, folder.with_suffix(".log"), imports=(_MODULE,))


def main(folder: Path, settings: dict[str, Any]) -> None:
    """Does everything that is due, again and again."""
    until = time.monotonic() + _MOST_SECONDS
    runtime = build_failing(folder, load_settings(**settings))
    take_inventory(runtime, ACCOUNT, REGION)
    while time.monotonic() < until:
        _pass(runtime)


def _pass(runtime: Runtime) -> None:
    reconciler = Reconciler(runtime)
    for row in runtime.database.all(claims.claim_due(10, runtime.settings.claim_seconds)):
        reconciler.run(LeaseId(row.id), row.claim_id)
    for job in (watch, work_on_volumes):
        with suppress(ProviderError):
            job(runtime, ACCOUNT, REGION)


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
