"""Ports of a stack's servers."""

import socket
import subprocess
import sys

import pytest

from app.local import ports
from app.local.ports import LOOPBACK, free_port, is_free, keep_or_free
from app.settings import StartupError
from tests.house.sources import ROOT


def test_a_free_port_is_none_that_an_outgoing_connection_may_get() -> None:
    assert all(1024 < free_port() < 32768 for _ in range(50))


def _elsewhere(*lines: str) -> str:
    """What another process prints."""
    words = [sys.executable, "-c", "\n".join(["from app.local import ports", *lines])]
    return subprocess.run(words, check=True, text=True, stdout=subprocess.PIPE, cwd=ROOT).stdout


def test_a_port_that_another_process_chose_is_neither_given_nor_kept() -> None:
    """Nobody listens there yet: a database takes a second from the choice of its port to its start."""
    port = free_port()
    ask = f"try: print(ports.keep_or_free({port}))", "except ports.StartupError: print('none')"
    assert _elsewhere(f"ports._NEVER_GIVEN = [{port}]", *ask) == "none\n"


def test_a_process_chooses_no_port_twice_and_keeps_some_alone() -> None:
    lines = "ports._MOST = 50", "ports._NEVER_GIVEN = range(29000, 29060)", "ports._TRIES = 10000"
    ask = "print(len({ports.free_port() for _ in range(50)}), len({ports.free_port() for _ in range(100)}) <= 60)"
    assert _elsewhere(*lines, ask) == "50 True\n"


def test_a_port_is_given_again_after_the_process_that_chose_it() -> None:
    port = int(_elsewhere("print(ports.free_port())"))
    assert keep_or_free(port) == port


def test_a_port_that_somebody_has_is_not_free_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    assert keep_or_free(port) == port
    with socket.create_server((LOOPBACK, port)):
        assert not is_free(port)
        assert keep_or_free(port) != port
    with socket.create_server((LOOPBACK, 0)) as taken:
        monkeypatch.setattr(ports, "_NEVER_GIVEN", [taken.getsockname()[1]])
        with pytest.raises(StartupError, match="no free port"):
            free_port()
