"""Ports and passwords stay the same from run to run as long as they can."""

import socket
import stat
from dataclasses import replace
from pathlib import Path

from app.local.memory import recall
from app.local.ports import LOOPBACK


def test_the_second_run_gets_the_same(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    assert recall(file) == recall(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_port_that_was_taken_meanwhile_is_replaced_and_the_passwords_stay(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    first = recall(file)
    with socket.create_server((LOOPBACK, first.redis_port)):
        second = recall(file)
    assert second.redis_port != first.redis_port
    assert replace(second, redis_port=first.redis_port) == first


def test_passwords_do_not_show_in_logs(tmp_path: Path) -> None:
    memory = recall(tmp_path / "state.json")
    assert memory.postgres_password not in repr(memory)
    assert memory.redis_password not in repr(memory)
