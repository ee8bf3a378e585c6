"""A stack whose schema cannot be brought up to date says why."""

import os
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest

from app.local import programs, stack
from app.local.home import Home
from app.local.memory import Memory
from app.local.options import parse
from app.local.progress import Progress
from app.local.supervision import Supervisor, launch
from app.settings import StartupError


@pytest.fixture
def migrating(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, migration: str) -> Iterator[Supervisor]:
    """A supervisord whose migration runs this code."""
    monkeypatch.setattr(programs, "python", lambda *_: (sys.executable, "-c", migration))
    home = Home(tmp_path)
    config = programs.render(home, [programs.migration()], "root" if os.geteuid() == 0 else None)
    supervisor = launch(home, config, os.environ)
    yield supervisor
    supervisor.shut_down()


@pytest.mark.parametrize(
    "migration",
    [
        f"import sys; print('FAILED: no revision 0099', file=sys.{stream}); sys.exit(255)"
        for stream in ("stdout", "stderr")
    ],
)
def test_a_migration_that_fails_shows_what_it_wrote_on_either_stream(tmp_path: Path, migrating: Supervisor) -> None:
    """Alembic writes its reason to standard output."""
    (tmp_path / "logs" / "migrate.log").write_text("what an earlier start wrote\n")
    plan = stack.make_plan(Home(tmp_path), parse([], {}), Memory(1, 2, 3, "p", "r"), {})
    migrating.await_calls()
    with pytest.raises(StartupError, match=r"could not be brought up to date:\nFAILED: no revision 0099$"):
        stack.Stack(plan, Progress(StringIO()))._migrate(migrating)
