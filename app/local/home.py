"""The folder where a local stack keeps its state, and the lock that admits one stack at a time."""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from app.settings import StartupError

# macOS allows 104 bytes for the path of a unix socket; supervisor adds its pid while it creates one
LONGEST_SOCKET_PATH = 90

CHECKOUT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Home:
    """The folder `$GPULEASE_HOME` and its contents."""

    path: Path

    @property
    def logs(self) -> Path:
        """One rotated file per process."""
        return self.path / "logs"

    @property
    def postgres(self) -> Path:
        """The data directory."""
        return self.path / "postgres"

    @property
    def redis(self) -> Path:
        """Configuration only."""
        return self.path / "redis"

    @property
    def state_file(self) -> Path:
        """Ports and passwords of the last run."""
        return self.path / "state.json"

    @property
    def credentials_file(self) -> Path:
        """The URLs and keys that a client needs."""
        return self.path / "credentials.json"

    @property
    def accounts_file(self) -> Path:
        """The accounts of the simulated cloud."""
        return self.path / "gpulease.toml"

    @property
    def gcp_key_file(self) -> Path:
        """The service account of the simulated GCP project."""
        return self.path / "gcp-service-account.json"

    @property
    def cloudsim_file(self) -> Path:
        """The stored state of the simulated cloud."""
        return self.path / "cloudsim.json"

    @property
    def supervisor_config(self) -> Path:
        """Rewritten at every start."""
        return self.path / "supervisor.conf"

    @property
    def supervisor_output(self) -> Path:
        """What supervisord prints before it has a log."""
        return self.logs / "supervisord.out"

    @property
    def supervisor_socket(self) -> Path:
        """In the home, or in /tmp when the home's path is too long for a socket."""
        inside = self.path / "supervisor.sock"
        if len(os.fsencode(inside)) <= LONGEST_SOCKET_PATH:
            return inside
        name = hashlib.sha256(os.fsencode(self.path)).hexdigest()[:16]
        return Path("/tmp") / f"gpulease-{os.geteuid()}-{name}.sock"  # noqa: S108 - nowhere else is short enough

    @property
    def lock_file(self) -> Path:
        """Locked by the running stack."""
        return self.path / "lock"


def find_home(environment: Mapping[str, str]) -> Home:
    """`$GPULEASE_HOME`, else `.gpulease` in the checkout (in the current folder when there is no checkout)."""
    configured = environment.get("GPULEASE_HOME")
    if configured:
        return Home(Path(configured).expanduser().absolute())
    base = CHECKOUT if (CHECKOUT / "pyproject.toml").exists() else Path.cwd()
    return Home(base / ".gpulease")


@contextmanager
def claimed(home: Home) -> Iterator[None]:
    """Create the folder and lock it. The kernel releases the lock when this process ends, for any reason.

    Raises StartupError when another stack runs there, or when the folder cannot be used.
    """
    try:
        home.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        home.path.chmod(0o700)
        lock = os.open(home.lock_file, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StartupError(f"cannot use {home.path} (GPULEASE_HOME): {error.strerror}") from None
    try:
        _lock(lock, home)
        yield
    finally:
        os.close(lock)


def _lock(descriptor: int, home: Home) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pid = os.pread(descriptor, 20, 0).decode() or "unknown"
        raise StartupError(
            f"a stack is already running in {home.path} (process {pid.strip()}); "
            "stop it, or set GPULEASE_HOME, GPULEASE_PORT and GPULEASE_CLOUDSIM_PORT for a second one"
        ) from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)


def start_over(home: Home) -> None:
    """Remove what a stack created there, and nothing else."""
    for folder in (home.postgres, home.postgres.with_name("postgres.new"), home.redis, home.logs):
        shutil.rmtree(folder, ignore_errors=True)
    files = (home.state_file, home.credentials_file, home.accounts_file, home.gcp_key_file, home.supervisor_config)
    for file in (*files, *home.path.glob(f"{home.cloudsim_file.name}*")):
        file.unlink(missing_ok=True)
