"""The all-reduce of a group, as VMs run it: processes on loopback addresses, against fake CUDA and NCCL libraries."""

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from app.agent import program

SECONDS = 60
RUNNER = """
import ctypes, sys
from pathlib import Path
from cloudsim.gpus.fake_nvml import fake_loader
ctypes.CDLL = fake_loader(Path(sys.argv[1]), lambda: None)
text = Path(sys.argv[2]).read_text()
exec(compile(text, "all-reduce", "exec"), {"__name__": "__main__"})
"""
GPUS: dict[str, Any] = {"model": "H100", "count": 2}


class Members:
    """Each member has a folder, the address 127.0.0.(rank + 1), and the GPUs of its state."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        self._program = folder / "all_reduce.py"
        self._program.write_bytes(program.all_reduce_source())

    def be_impatient(self) -> None:
        """Rank 0 hardly waits for the others."""
        patient, text = "SAMPLE = 20.0, ", self._program.read_text()
        assert patient in text
        self._program.write_text(text.replace(patient, "SAMPLE = 0.1, "))

    def start(self, rank: int, size: int, secret: str = "s", **gpus: Any) -> subprocess.Popen[str]:
        state = self._folder / f"{rank}-{secret}.json"
        state.write_text(json.dumps(GPUS | gpus))
        addresses = [f"127.0.0.{n + 1}" for n in range(size)]
        task = {"rank": rank, "addresses": addresses, "port": self._port, "secret": secret}
        command = [sys.executable, "-c", RUNNER, str(state), str(self._program)]
        process = subprocess.Popen(command, stdin=-1, stdout=-1, text=True)
        assert process.stdin is not None
        process.stdin.write(json.dumps(task))
        process.stdin.close()
        process.stdin = None
        return process

    def results(self, *processes: subprocess.Popen[str]) -> list[dict[str, Any]]:
        return [json.loads(process.communicate(timeout=SECONDS)[0]) for process in processes]


@pytest.fixture
def members(tmp_path: Path) -> Members:
    return Members(tmp_path)


def test_all_gpus_of_all_members_add_up(members: Members) -> None:
    counts = (2, 1, 4)
    found = members.results(*(members.start(rank, 3, count=count) for rank, count in enumerate(counts)))
    assert [(one["result"], one["gpus"]) for one in found] == [("ok", 7)] * 3
    assert all(one["gbps"] > 0 for one in found)


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("lack", [{"nccl": False}, {"driver": "missing"}, {"count": 0}], ids=str)
def test_a_member_without_gpus_or_nccl_ends_the_check_for_all_at_once(
    members: Members, lack: dict[str, Any], rank: int
) -> None:
    found = members.results(*(members.start(n, 2, **(lack if n == rank else {})) for n in range(2)))
    assert [one["result"] for one in found] == ["unavailable"] * 2


def test_a_wrong_sum_fails_where_it_is_wrong(members: Members) -> None:
    right, wrong = members.results(members.start(0, 2), members.start(1, 2, allreduce="wrong"))
    assert right["result"] == "ok"
    assert wrong["result"] == "failed"
    assert "wrong sum" in wrong["detail"]


def test_a_member_that_does_not_come_makes_the_check_unavailable(members: Members) -> None:
    members.be_impatient()
    assert members.results(members.start(0, 2))[0]["result"] == "unavailable"


def test_a_stranger_does_not_take_part_and_does_not_disturb(members: Members) -> None:
    first = members.start(0, 2)
    (refused,) = members.results(members.start(1, 2, secret="guessed"))
    assert refused["result"] == "failed"
    found = members.results(first, members.start(1, 2))
    assert [(one["result"], one.get("gpus")) for one in found] == [("ok", 4)] * 2, found
