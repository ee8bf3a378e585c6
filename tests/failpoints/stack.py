"""`python -m tests.failpoints.stack`: `python -m app.local` with worker processes that fail at armed points."""

import sys

from app.local import programs
from tests.harness.forked_stack import main

if __name__ == "__main__":
    programs.WORKERS = "tests.failpoints"
    sys.exit(main())
