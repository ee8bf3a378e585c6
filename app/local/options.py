"""What the user asks of the local stack: the command line and the environment, checked."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from app.local.profiles import PROFILES
from app.settings import StartupError
from app.settings.passwords import insert_password, read_password

API_PORT = 8000
CLOUDSIM_PORT = 8010
HIGHEST_PORT = 65535
CLOUDS = ("aws", "gcp", "azure")
GPU_AGENTS = 16
"""Each is a process of about 20 MB that sleeps most of the time."""
PASSWORD_VARIABLES = ("GPULEASE_DATABASE_PASSWORD", "GPULEASE_DATABASE_PASSWORD_FILE")


@dataclass(frozen=True)
class Options:
    """`api`, `workers`, `inventories` and `gpu_agents` are numbers of processes; the URLs are None where the stack brings its own server.

    `command`: what to run against the stack, which ends with it. Empty: the stack runs until it is asked to end.
    """

    profile: str
    fresh: bool
    api: int
    workers: int
    inventories: int
    gpu_agents: int
    clouds: tuple[str, ...]
    host: str
    port: int
    cloudsim_port: int
    database_url: str | None
    broker_url: str | None
    config: str | None
    command: tuple[str, ...] = ()

    @property
    def api_url(self) -> str:
        """Where clients find the API."""
        host = "127.0.0.1" if self.host == "0.0.0.0" else self.host  # noqa: S104 - only compared
        return f"http://{host}:{self.port}"

    @property
    def is_simulated(self) -> bool:
        """Whether the accounts are those of the simulated clouds. With an accounts file of the user's own, VMs cost money."""
        return self.config is None

    @property
    def cloudsim_url(self) -> str:
        """Where the simulated cloud and its controls are, if the stack starts one."""
        return f"http://127.0.0.1:{self.cloudsim_port}"


def parse(argv: Sequence[str], environment: Mapping[str, str]) -> Options:
    """Raises StartupError for a wrong variable; argparse itself exits with 2 for a wrong argument."""
    arguments = _parser().parse_args(argv)
    return Options(
        profile=arguments.profile,
        fresh=arguments.fresh,
        api=arguments.api,
        workers=arguments.workers,
        inventories=arguments.inventories,
        gpu_agents=arguments.gpu_agents,
        clouds=arguments.clouds,
        host=environment.get("GPULEASE_HOST") or "127.0.0.1",
        port=_port(environment, "GPULEASE_PORT", API_PORT),
        cloudsim_port=_port(environment, "GPULEASE_CLOUDSIM_PORT", CLOUDSIM_PORT),
        database_url=_database_url(environment),
        broker_url=environment.get("GPULEASE_BROKER_URL") or None,
        config=environment.get("GPULEASE_CONFIG") or None,
        command=_command(arguments.command),
    )


def _database_url(environment: Mapping[str, str]) -> str | None:
    """With its password in it, wherever that was given."""
    url = environment.get("GPULEASE_DATABASE_URL")
    if not url:
        return None
    variable, file = PASSWORD_VARIABLES
    value, path = environment.get(variable), environment.get(file)
    return insert_password(url, read_password(variable, SecretStr(value or ""), Path(path) if path else None))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpulease up",
        description="Run the whole service on this machine: PostgreSQL, Redis, simulated clouds, API and workers.",
        epilog="Environment: GPULEASE_HOME (state, default .gpulease), GPULEASE_PORT (8000), GPULEASE_CLOUDSIM_PORT (8010); "
        "GPULEASE_DATABASE_URL and GPULEASE_BROKER_URL use your own servers, GPULEASE_CONFIG your own cloud accounts, without simulated clouds.",
    )
    parser.add_argument(
        "--profile",
        choices=sorted(PROFILES),
        default="realistic",
        help="fast: 1 s boots, short intervals, no rate limits; realistic: 20 s boots, documented limits (default)",
    )
    parser.add_argument("--fresh", action="store_true", help="forget everything of earlier runs first")
    parser.add_argument("--api", type=_count, default=1, metavar="N", help="API processes (default 1)")
    parser.add_argument("--workers", type=_count, default=1, metavar="N", help="worker processes (default 1)")
    parser.add_argument(
        "--inventories",
        type=_count,
        default=2,
        metavar="N",
        help="inventory processes: one is enough for the work, a second continues when it ends (default 2)",
    )
    _add_clouds(parser)
    parser.add_argument(
        "command",
        nargs=argparse.REMAINDER,
        metavar="-- COMMAND",
        help="run this command against the stack, end the stack with it, and return its exit code",
    )
    return parser


def _add_clouds(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--gpu-agents",
        type=_agents,
        default=GPU_AGENTS,
        metavar="N",
        help=f"simulated VMs that run the real agent and report the use of their GPUs (default {GPU_AGENTS})",
    )
    parser.add_argument(
        "--clouds",
        type=_clouds,
        default=CLOUDS,
        metavar="A,B",
        help=f"simulated clouds with an account ({','.join(CLOUDS)}; all by default)",
    )


def _command(words: Sequence[str]) -> tuple[str, ...]:
    """Typer removes the `--` before the command; argparse keeps it."""
    return tuple(words[1:] if words[:1] == ["--"] else words)


def _clouds(text: str) -> tuple[str, ...]:
    named = tuple(text.split(","))
    if not set(named) <= set(CLOUDS):
        raise argparse.ArgumentTypeError(f"expected some of {','.join(CLOUDS)}")
    return named


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 64:
        raise argparse.ArgumentTypeError("expected a number from 1 to 64")
    return int(text)


def _agents(text: str) -> int:
    if not text.isdecimal() or int(text) > 256:
        raise argparse.ArgumentTypeError("expected a number from 0 to 256")
    return int(text)


def _port(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name) or str(default)
    if not text.isdecimal() or not 1 <= int(text) <= HIGHEST_PORT:
        raise StartupError(f"{name} must be a port number, not {text!r}")
    return int(text)
