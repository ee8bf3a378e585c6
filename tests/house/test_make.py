"""The Makefile explains itself and works with the make that macOS has."""

import re
import shutil
import stat
import subprocess

from tests.house.sources import ROOT

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
MAKE = shutil.which("make") or "make"
TARGETS = {
    *("help", "up", "test", "simulate", "crash-matrix", "chaos", "races", "mutation", "fuzz", "audit"),
    *(
        "mutation-of-steps",
        "deployment",
        "agents",
        "bench",
        "fmt",
        "lint",
        "openapi",
        "examples",
        "clients",
        "docs",
        "lock",
        "clean",
        "cloud-init",
    ),
}


def test_the_default_target_explains_every_other_one() -> None:
    shown = subprocess.run([MAKE], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"^  ([a-z-]+) ", shown, re.MULTILINE)) == TARGETS


def test_nothing_is_used_that_old_make_lacks() -> None:
    assert not re.search(r"^\.ONESHELL|^\.EXTRA_PREREQS|&:|\$\((?:file|guile|let|intcmp) ", MAKEFILE, re.MULTILINE)
    assert "!=" not in re.sub(r"'[^']*'", "", MAKEFILE)


def test_too_old_a_python_is_refused_with_a_clear_message(tmp_path: object) -> None:
    argv = [MAKE, "-s", "-f", str(ROOT / "Makefile"), ".venv/bin/python", "PYTHON=false"]
    done = subprocess.run(argv, cwd=str(tmp_path), capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "needs Python 3.11 or newer" in done.stderr


def test_ci_is_an_executable_script_that_stops_at_the_first_failure() -> None:
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & stat.S_IXUSR
    assert "set -euo pipefail" in script.read_text(encoding="utf-8")
