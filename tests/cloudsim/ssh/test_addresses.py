"""Where the SSH servers of VMs answer: at this machine's loopback addresses only."""

import socket

import pytest

from app.local.ports import LOOPBACK, free_port
from cloudsim.settings import Settings
from cloudsim.ssh import server


def test_vms_have_addresses_of_their_own_or_share_the_only_one(monkeypatch: pytest.MonkeyPatch) -> None:
    host = _bound_address()
    assert host == LOOPBACK or host.startswith("127.18.")
    monkeypatch.setattr(server, "_only_loopback", lambda _listener: False)
    assert _bound_address() == LOOPBACK


def _bound_address() -> str:
    """The address of a VM at which a server answers."""
    listener, addresses = server.bind(free_port())
    settings = Settings().changed(**addresses)
    host = settings.vm_address or f"{settings.vm_network}.3.4"
    with listener, socket.create_connection((host, listener.getsockname()[1]), timeout=60):
        return host


def test_no_other_network_than_two_can_be_set() -> None:
    with pytest.raises(ValueError, match=r"198\.18"):
        Settings().changed(vm_network="10.0")
