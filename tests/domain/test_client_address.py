"""Which address a request counts for."""

from ipaddress import ip_network

import pytest

from app.domain.client_address import address_block, find_client_address


@pytest.mark.parametrize(
    ("address", "block"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("2001:db8:2:3:4:5:6:7", "2001:db8:2:3::/64"),
        ("2001:db8:2:3::1", "2001:db8:2:3::/64"),
        ("2001:db8:2:4::1", "2001:db8:2:4::/64"),
        ("::ffff:198.51.100.1", "::ffff:198.51.100.1"),
        ("unix", "unix"),
        (None, ""),
    ],
)
def test_failed_logins_count_for_the_network_of_one_customer(address: str | None, block: str) -> None:
    assert address_block(address) == block


PROXIES = (ip_network("10.0.0.0/8"), ip_network("2001:db8:1::/48"))


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("203.0.113.9", [], "203.0.113.9"),
        ("203.0.113.9", ["198.51.100.1"], "203.0.113.9"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["192.0.2.66, 198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["192.0.2.66, 198.51.100.1, 10.0.0.2"], "198.51.100.1"),
        ("10.0.0.1", ["192.0.2.66", "198.51.100.1 ,10.0.0.2"], "198.51.100.1"),
        ("10.0.0.1", ["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        ("10.0.0.1", ["198.51.100.1:4711"], "198.51.100.1"),
        ("10.0.0.1", ["[2001:db8:2::7]:4711"], "2001:db8:2::7"),
        ("10.0.0.1", ["2001:DB8:2:0::7"], "2001:db8:2::7"),
        ("2001:db8:1::1", ["198.51.100.1"], "198.51.100.1"),
        ("::ffff:10.0.0.1", ["::ffff:198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["198.51.100.1, unknown"], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.1, unknown, 10.0.0.2"], "10.0.0.2"),
        ("10.0.0.1", [""], "10.0.0.1"),
        ("10.0.0.1", ["fe80::1%eth0"], "10.0.0.1"),
        ("a socket", ["198.51.100.1"], "a socket"),
        (None, ["198.51.100.1"], None),
    ],
)
def test_a_forwarded_address_is_taken_from_trusted_peers_only(
    peer: str | None, forwarded: list[str], client: str | None
) -> None:
    assert find_client_address(peer, forwarded, PROXIES) == client


def test_without_trusted_proxies_the_peer_is_the_client() -> None:
    assert find_client_address("10.0.0.1", ["198.51.100.1"], ()) == "10.0.0.1"


def test_a_chain_of_proxies_is_read_up_to_a_limit() -> None:
    """A header of 60 KiB must not cost 5,000 parsed addresses."""
    endless = ", ".join(["198.51.100.1", *["10.0.0.2"] * 5_000])
    assert find_client_address("10.0.0.1", [endless], PROXIES) == "10.0.0.2"
