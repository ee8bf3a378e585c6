"""`python -m tests.failpoints.stack`: `python -m app.local` with worker processes that fail at armed points."""

import sys

from app.local import programs
from app.local.__main__ import main

if __name__ == "__main__":
    programs.WORKERS = "tests.failpoints"
    sys.exit(main())
