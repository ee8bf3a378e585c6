"""`python -m tests.harness.forked_stack`: `python -m app.local`, which forks its supervisord where it was forked itself."""

import sys

from app.local import supervision
from app.local.__main__ import main as up
from tests.harness.forked import fork_interpreter, is_forked


def main() -> int:
    """Runs until asked to end."""
    if is_forked():
        supervision.interpreter = fork_interpreter
    return up()


if __name__ == "__main__":
    sys.exit(main())
