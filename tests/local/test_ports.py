"""Ports of a stack's servers."""

import socket

import pytest

from app.local import ports
from app.local.ports import LOOPBACK, free_port, is_free, keep_or_free
from app.settings import StartupError


def test_a_free_port_is_none_that_an_outgoing_connection_may_get() -> None:
    assert all(1024 < free_port() < 32768 for _ in range(50))


def test_a_port_that_somebody_has_is_not_free_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    assert keep_or_free(port) == port
    with socket.create_server((LOOPBACK, port)):
        assert not is_free(port)
        assert keep_or_free(port) != port
        monkeypatch.setattr(ports, "_NEVER_GIVEN", range(port, port + 1))
        with pytest.raises(StartupError, match="no free port"):
            free_port()
