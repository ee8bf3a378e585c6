"""Chooses the process. A start that fails says why in one line on stderr and exits with 2."""

import argparse
import gc
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import NoReturn

MISUSE = 2
ALEMBIC_INI = Path(__file__).resolve().parents[2] / "migrations" / "alembic.ini"


def main() -> NoReturn:
    """Entry point of the console script."""
    if find_spec("sqlalchemy") is None:
        sys.stderr.write("gpulease-server: this installation is the client alone: pip install 'gpulease[server]'\n")
        sys.exit(MISUSE)
    # a sixth of the start. The API switches it on again; the other processes are short
    gc.disable()
    sys.exit(run(sys.argv[1:]))


def run(argv: Sequence[str]) -> int:
    """Become the process that `argv` names; the exit code where it ends by itself."""
    process, rest = _parse(argv)
    if process in WORKERS:
        _become(process, rest)
    from app.settings import StartupError  # noqa: PLC0415 - importing it takes a tenth of a worker's start

    try:
        HERE[process](rest)
    except StartupError as error:
        sys.stderr.write(f"gpulease-server {process}: {error}\n")
        return MISUSE
    return 0


def _parse(argv: Sequence[str]) -> tuple[str, list[str]]:
    parser = argparse.ArgumentParser(
        prog="gpulease-server",
        description="One process of the service. All settings are environment variables GPULEASE_*.",
        epilog="api: the HTTP API. worker: handles leases. inventory: compares the clouds with the database. "
        "migrate: brings the database schema up to date (further arguments go to Alembic, instead of `upgrade head`). "
        "operator-key: makes an operator's key and prints it, this once. "
        "deadman-key: makes a key for the heartbeat of `deadman`, which opens nothing else, and prints it, this once. "
        "keys: prints the keys of operators and of the dead-man switch, without their secrets. "
        "bad-gpus: forgets the broken GPUs that its arguments name, and prints those that are remembered. "
        "deadman: ends VMs past their tagged deadline, without a database (takes arguments of its own). "
        "prices: compares prices with a table, or writes the price lists (takes arguments of its own). "
        "check: checks the rights, images, subnets, quotas and regions of each account (takes arguments of its own). "
        "reconcile: imports what a provider charged, from its own export (takes arguments of its own).",
    )
    parser.add_argument("process", choices=PROCESSES)
    arguments = parser.parse_args(argv[:1])
    rest = list(argv[1:])
    if rest and arguments.process not in TAKE_ARGUMENTS:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    return arguments.process, rest


def _api(_rest: Sequence[str]) -> None:
    from app.settings import load_settings  # noqa: PLC0415 - as in `run`

    settings = load_settings()
    from app.server.start import start  # noqa: PLC0415 - a migration or a worker needs no web server

    start(settings)


def _become(process: str, rest: Sequence[str]) -> NoReturn:
    """Replaces this process: the program's HTTP side never imports the Celery side."""
    os.execv(sys.executable, [sys.executable, "-m", "workers", process, *rest])  # noqa: S606 - no shell wanted


def _migrate(rest: Sequence[str]) -> None:
    from app.server.migrate import migrate  # noqa: PLC0415 - only this process needs Alembic

    migrate(ALEMBIC_INI, rest)


def _operator_key(_rest: Sequence[str]) -> None:
    from app.prerequisites import check_database, ensure_operator_key  # noqa: PLC0415 - only this process needs it
    from app.settings import load_settings  # noqa: PLC0415 - as above

    url = load_settings().database_url
    check_database(url)
    sys.stdout.write(ensure_operator_key(url, None) + "\n")


def _deadman_key(_rest: Sequence[str]) -> None:
    from app.prerequisites import check_database, make_deadman_key  # noqa: PLC0415 - only this process needs it
    from app.settings import load_settings  # noqa: PLC0415 - as above

    url = load_settings().database_url
    check_database(url)
    sys.stdout.write(make_deadman_key(url) + "\n")


def _keys(_rest: Sequence[str]) -> None:
    from app.prerequisites import check_database, installation_keys  # noqa: PLC0415 - only this process needs it
    from app.settings import load_settings  # noqa: PLC0415 - as above

    url = load_settings().database_url
    check_database(url)
    sys.stdout.writelines(f"{line}\n" for line in installation_keys(url))


def _bad_gpus(rest: Sequence[str]) -> None:
    from app.prerequisites import bad_gpus, check_database  # noqa: PLC0415 - only this process needs it
    from app.settings import load_settings  # noqa: PLC0415 - as above

    url = load_settings().database_url
    check_database(url)
    sys.stdout.writelines(f"{line}\n" for line in bad_gpus(url, rest))


HERE: Mapping[str, Callable[[Sequence[str]], None]] = MappingProxyType(
    {
        "api": _api,
        "migrate": _migrate,
        "operator-key": _operator_key,
        "deadman-key": _deadman_key,
        "keys": _keys,
        "bad-gpus": _bad_gpus,
    }
)
WORKERS = ("worker", "inventory", "check", "deadman", "prices", "reconcile")
PROCESSES = (*HERE, *WORKERS)
TAKE_ARGUMENTS = frozenset({"bad-gpus", "check", "migrate", "deadman", "prices", "reconcile"})
