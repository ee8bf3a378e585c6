"""Programs of a driver that are missing, fail, hang, are slow or never end: what is reported, and that nothing is left."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.agent.vms import AGENT, SECONDS

ASK = """
import ctypes, json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import gpulease_agent as agent
agent.DRIVER_SECONDS = float(sys.argv[2])
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
found = []
for _ in range(2):
    reading = agent.Reading(None)
    found.append([reading.errors, reading.source is not None])
print(json.dumps([found, Path("/proc/self/task/%d/children" % agent.os.getpid()).read_text().split()]))
"""
BEHAVIOURS = {
    "exit 1": ("exit 1", "exit status 1", 1),
    "exit 15": ("exit 15", "exit status 15", 15),
    "hangs": ("exec sleep 600", "no answer within 1 s", None),
    "hangs with a child at the pipe": ("sleep 600 & sleep 600 & wait", "no answer within 1 s", None),
    "leaves a child at the pipe": ("sleep 600 & exit 0", "no answer within 1 s", None),
    "prints 100 MB": ("head -c 100000000 /dev/zero; exec sleep 600", "OverflowError: {name}", None),
}


def ask(folder: Path, seconds: float = 1.0) -> Any:
    env = os.environ | {"PATH": f"{folder}:/usr/bin:/bin"}
    command = [sys.executable, "-c", ASK, str(AGENT.parent), str(seconds)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=SECONDS)
    return json.loads(done.stdout)


def install(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\necho $$ >> {folder}/pids\n{script}\n")
    (folder / name).chmod(0o755)


def alive(folder: Path) -> list[int]:
    """Processes with the folder's program in their group."""
    groups = [int(pid) for pid in (folder / "pids").read_text().split()]
    left = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue
        state, _, group = text.rpartition(")")[2].split()[:3]
        if state != "Z" and (int(stat.parent.name) in groups or int(group) in groups):
            left.append(int(stat.parent.name))
    return left


@pytest.mark.parametrize("name", ["nvidia-smi", "amd-smi", "rocm-smi"])
@pytest.mark.parametrize("kind", BEHAVIOURS)
def test_a_program_that_gives_no_answer_is_named_and_leaves_nothing(tmp_path: Path, name: str, kind: str) -> None:
    script, text, code = BEHAVIOURS[kind]
    install(tmp_path, name, script)
    found, children = ask(tmp_path)
    for errors, known in found:
        assert not known
        assert [(one["source"], one["text"], one.get("code")) for one in errors] == [
            (name, f"{name}: {text.format(name=name)}", code)
        ]
    assert children == []
    assert alive(tmp_path) == []


def test_programs_that_are_missing_are_no_error(tmp_path: Path) -> None:
    assert ask(tmp_path) == [[[[], False], [[], False]], []]


def test_a_slow_program_is_waited_for(tmp_path: Path) -> None:
    output = Path(__file__).with_name("outputs") / "rocm_smi.json"
    install(tmp_path, "rocm-smi", f"sleep 1; cat {output}")
    found, children = ask(tmp_path, 30.0)
    assert found == [[[], True], [[], True]]
    assert children == []
