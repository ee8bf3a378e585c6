"""`python -m tests.mutation_of_steps`: change the protocol's steps and count what the tests of the workers notice.

Such a test needs a database and seconds: a sample of the changes is tried. `--sample` chooses by name, as mutmut knows them.
"""

import argparse
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatch
from pathlib import Path

from app.local import embedded_postgres, embedded_redis
from app.local.ports import free_port
from tests.harness.databases import ROOT
from tests.mutation import verdict

_COPY = ROOT / "mutants" / "of-steps"
_BEFORE, _TABLE = "\n[tool.mutmut]\n", "\n[tool."
_OF_THE_SOURCE = {"test_failpoints", "test_deadman"}
"""They read the source, or start it as it stands: mutmut's copy is not what they expect."""
_CONFIGURATION = """
source_paths = ["workers"]
only_mutate = ["workers/lifecycle/steps/*", "workers/lifecycle/reconciler.py"]
also_copy = ["app", "cloudsim", "migrations", "bench"]
process_isolation = "forkserver"
forkserver_warmup = "none"
pytest_add_cli_args = ["-p", "no:cacheprovider", "-q", "-x"]
pytest_add_cli_args_test_selection = [{tests}]
"""
"""Without a warm-up: in a process that is forked after pytest has collected, every test fails, whatever was changed."""


def main() -> int:
    """0 when enough of the sample is noticed."""
    arguments = _arguments()
    _copy()
    mutmut = [Path(sys.executable).with_name("mutmut")]
    with _servers() as environment:
        argv = [*mutmut, "run", arguments.sample]
        tried_all = subprocess.run(argv, cwd=_COPY, env={**os.environ, **environment}, check=False).returncode == 0
    if not tried_all:
        return 1
    told = subprocess.run([*mutmut, "results", "--all", "true"], cwd=_COPY, check=True, capture_output=True, text=True)
    results = dict(line.strip().split(": ") for line in told.stdout.splitlines())
    tried = {name: result for name, result in results.items() if fnmatch(name, arguments.sample)}
    for name in sorted(name for name, result in tried.items() if result not in {"killed", "timeout"}):
        sys.stdout.write(f"{tried[name]}: {name} (cd {_COPY.relative_to(ROOT)}; mutmut show {name})\n")
    counted = Counter(tried.values())
    return verdict(counted["killed"] + counted["timeout"], len(tried))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation_of_steps", description=__doc__)
    parser.add_argument(
        "--sample", default="*__mutmut_3", help="names of changes; the default is the third of each function"
    )
    return parser.parse_args()


def _copy() -> None:
    """What git would take, with another configuration of mutmut."""
    shutil.rmtree(_COPY, ignore_errors=True)
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (_COPY / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, _COPY / name)
    project = _COPY / "pyproject.toml"
    before, _, after = project.read_text(encoding="utf-8").partition(_BEFORE)
    found = (_COPY / "tests/workers").glob("test_*.py")
    tests = sorted(str(path.relative_to(_COPY)) for path in found if path.stem not in _OF_THE_SOURCE)
    configuration = _CONFIGURATION.format(tests=", ".join(f'"{path}"' for path in tests))
    rest = _TABLE + after.partition(_TABLE)[2]
    project.write_text(before + _BEFORE + configuration + rest, encoding="utf-8")


@contextmanager
def _servers() -> Iterator[Mapping[str, str]]:
    """One of each for all tests: a process of its own tries each change."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gpulease-mutation-")))
        folder.chmod(0o711)
        settings = {**embedded_postgres.SETTINGS, **embedded_postgres.FORGETFUL}
        cluster = embedded_postgres.EmbeddedCluster(folder / "postgres", free_port(), secrets.token_hex(16), settings)
        stack.enter_context(embedded_postgres.running(cluster))
        broker = embedded_redis.EmbeddedRedis(folder / "redis", free_port(), secrets.token_hex(16))
        stack.enter_context(embedded_redis.running(broker))
        yield {"GPULEASE_DATABASE_URL": cluster.admin_url, "GPULEASE_BROKER_URL": broker.url}


if __name__ == "__main__":
    sys.exit(main())
