"""`python -m tests.failpoints worker|inventory`: a worker process that fails at the points armed in FAILPOINTS_FOLDER."""

import os
import sys
from functools import partial
from pathlib import Path

from app.settings import load_settings
from tests.failpoints import FOLDER, build_failing
from workers.process.running import run

if __name__ == "__main__":
    run(sys.argv[1], load_settings(), build=partial(build_failing, Path(os.environ[FOLDER])))
