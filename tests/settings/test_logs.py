"""A process writes JSON lines and nothing else, and lines for people to a terminal."""

import contextlib
import json
import os
import pty
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


def test_a_terminal_gets_lines_for_people_with_a_traceback() -> None:
    program = """
import structlog, sys
from app.observability.logs import configure_logs
configure_logs("INFO", sys.stdout)
log = structlog.get_logger()
log.info("lease is active", lease="lease_1")
try:
    1 / 0
except ZeroDivisionError:
    log.exception("no answer")
"""
    person, terminal = pty.openpty()
    argv = [sys.executable, "-c", program]
    subprocess.run(argv, cwd=ROOT, stdout=terminal, stderr=terminal, check=True, env={**os.environ, "TERM": "dumb"})
    os.close(terminal)
    content = b""
    with contextlib.suppress(OSError):  # Linux says so when the other side of a terminal has gone
        while chunk := os.read(person, 65_536):
            content += chunk
    os.close(person)
    assert b"lease is active" in content
    assert b'{"' not in content
    assert b"ZeroDivisionError" in content
