"""A process writes JSON lines and nothing else."""

import json
import subprocess
import sys

from tests.harness.databases import ROOT

PROGRAM = """
import logging, sys, warnings
from app.observability.logs import configure_logs
configure_logs("INFO", sys.stderr)
logging.getLogger("celery.worker").error("of a library")
warnings.warn("something is deprecated", DeprecationWarning)
"""


def test_warnings_of_libraries_are_log_lines_like_all_others() -> None:
    argv = [sys.executable, "-W", "always", "-c", PROGRAM]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in (done.stdout + done.stderr).splitlines()]
    assert [(line["logger"], line["level"]) for line in lines] == [
        ("celery.worker", "error"),
        ("py.warnings", "warning"),
    ]
    assert "something is deprecated" in lines[1]["event"]
