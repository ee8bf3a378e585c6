"""Old code on the new schema: `python -m tests.old_code`.

Hosts are upgraded one after the other, and the schema first. For each revision, the code of the commit before it runs its
own tests of a lease's life on today's schema: its checkout gets today's migrations. Needs the repository's history.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.databases import ROOT

VERSIONS = Path("migrations", "versions")
TESTS = (
    *(f"tests/api/test_leases_{what}.py" for what in ("create", "read", "change")),
    *(
        f"tests/db/{folder}test_{what}.py"
        for what in ("attempts", "claims", "quotas")
        for folder in ("", "leases/", "tenancy/")
    ),
    "tests/workers/lifecycle/test_life.py",
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.old_code", description=__doc__)
    parser.add_argument("--last", type=int, default=100, help="revisions, counted from the newest")
    asked = parser.parse_args()
    found = [(revision, before) for revision in _revisions() if (before := _before(revision)) is not None]
    results = {revision.stem: _tried(revision, before) for revision, before in found[-asked.last :]}
    failed = [name for name, passed in results.items() if not passed]
    print(f"the code before each of {len(results)} revisions, on today's schema; failed: {', '.join(failed) or 'none'}")
    return 1 if failed or not results else 0


def _revisions() -> list[Path]:
    return sorted((ROOT / VERSIONS).glob("[0-9]*.py"))


def _before(revision: Path) -> str | None:
    """The newest commit that has only earlier revisions, whether a commit or a merge brought this one. None: no commit has."""
    if revision.name not in _git("ls-tree", "--name-only", f"HEAD:{VERSIONS}").split():
        raise SystemExit(f"{revision.name} is in no commit yet")
    earlier = {path.name for path in _revisions() if path.name < revision.name}
    for commit in _git("rev-list", "--full-history", "HEAD", "--", str(VERSIONS)).split():
        for parent in _git("rev-parse", f"{commit}^@").split():
            files = _git("ls-tree", "--name-only", f"{parent}:{VERSIONS}").split() if _has_versions(parent) else []
            known = {name for name in files if name[0].isdigit()}
            if known and known <= earlier:
                return parent
    return None


def _has_versions(commit: str) -> bool:
    return bool(_git("ls-tree", "--name-only", commit, str(VERSIONS)))


def _tried(revision: Path, before: str) -> bool:
    with _checkout(before) as folder:
        shutil.copytree(ROOT / VERSIONS, folder / VERSIONS, dirs_exist_ok=True)
        tests = [test for test in TESTS if (folder / test).exists()]
        print(f"{revision.stem}: {len(tests)} files of tests at {before[:7]}", flush=True)
        argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
        environment = {**os.environ, "PYTHONPATH": str(folder)}
        return subprocess.run(argv, cwd=folder, env=environment, check=False).returncode == 0


@contextmanager
def _checkout(commit: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="gpulease-old-") as folder:
        _git("worktree", "add", "--detach", f"{folder}/code", commit)
        try:
            yield Path(folder, "code")
        finally:
            _git("worktree", "remove", "--force", f"{folder}/code")


def _git(*arguments: str) -> str:
    argv = ["git", *arguments]
    return subprocess.run(argv, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
