"""Which address a request counts for when proxies stand in front of the API."""

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_LONGEST_CHAIN = 16
"""Proxies that are looked through: a longer X-Forwarded-For header is not read to its end."""


def find_client_address(peer: str | None, forwarded: Sequence[str], trusted: Sequence[Network]) -> str | None:
    """The nearest address outside the `trusted` networks. `forwarded`: values of X-Forwarded-For, in their order.

    Each proxy appends the address of its own peer, so the header is read from right to left. It counts only while the
    address to its right is trusted: everything left of an untrusted address may be forged. Where an entry is no address,
    or all are trusted, the last trusted address is the client.
    """
    address = _parse(peer or "")
    if address is None:
        return peer
    for hop in _hops(forwarded):
        if not _is_trusted(address, trusted):
            break
        before = _parse(hop)
        if before is None:
            break
        address = before
    return str(address)


def address_block(address: str | None) -> str:
    """What failed logins are counted for: the address, or the /64 network of an IPv6 address.

    One customer of a network has at least a /64 (RFC 6177), and may use any address of it.
    """
    parsed = _parse(address or "")
    if not isinstance(parsed, IPv6Address):
        return address or ""
    return str(IPv6Network((parsed, 64), strict=False))


def _hops(forwarded: Sequence[str]) -> Iterator[str]:
    """Entries from right to left."""
    joined = ",".join(forwarded)
    yield from reversed(joined.rsplit(",", _LONGEST_CHAIN)[-_LONGEST_CHAIN:])


def _is_trusted(address: Address, trusted: Sequence[Network]) -> bool:
    return any(address in network for network in trusted)


def _parse(text: str) -> Address | None:
    """`203.0.113.9`, `203.0.113.9:4711`, `2001:db8::1` or `[2001:db8::1]:4711`. None for anything else."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text)
    except ValueError:
        return None
    if isinstance(address, IPv6Address):
        return None if address.scope_id is not None else address.ipv4_mapped or address
    return address
