"""A stack whose schema cannot be brought up to date says why."""

import sys
from io import StringIO
from pathlib import Path

import pytest

from app.local import stack
from app.local.home import Home
from app.local.memory import Memory
from app.local.options import parse
from app.local.progress import Progress
from app.settings import StartupError


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_migration_that_fails_shows_what_it_wrote_on_either_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: str
) -> None:
    """Alembic writes its reason to standard output."""
    child = f"import sys; print('FAILED: no revision 0099', file=sys.{stream}); sys.exit(255)"
    monkeypatch.setattr(stack.programs, "python", lambda *_: (sys.executable, "-c", child))
    plan = stack.make_plan(Home(tmp_path), parse([], {}), Memory(1, 2, 3, "p", "r"), {})
    with pytest.raises(StartupError, match="could not be brought up to date:\nFAILED: no revision 0099"):
        stack.Stack(plan, Progress(StringIO()))._migrate()
