"""Which URLs a webhook may have: only URLs of public addresses, in whatever notation.

URLs are parsed strictly. The parser refuses a URL that two programs could read in two ways, and never normalises it.
Examples are a number that is an address to one program and a name to another, and a userinfo that looks like a host.
"""

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

MOST = 10
"""Maximum number of webhooks of one tenant."""
LONGEST_URL = 2000


Address = IPv4Address | IPv6Address

_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<path>/[!$&'()*+,;=:@/A-Za-z0-9._~%-]*)?(?P<query>\?[!$&'()*+,;=:@/?A-Za-z0-9._~%-]*)?"
)
_LABEL = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)")
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")
_LONGEST_NAME = 253
_PORTS = {"http": 80, "https": 443}
_FIRST_FREE_PORT = 1024
_SERVICES = frozenset(
    {
        *(1433, 1521, 3306, 5432, 5984, 6379, 9042, 9200, 9300, 11_211, 27_017),  # databases, caches and indexes
        *(1883, 5671, 5672, 8883, 9092),  # message brokers
        *(2049, 3260, 3389, 5900, 5985, 5986),  # files, disks and screens
        *(2181, 2375, 2376, 2379, 2380, 6443, 10_250),  # container hosts and their registries of nodes
    }
)
"""Ports where a stranger's other services listen. A delivery would open a connection to them from our address."""

_V4_CLOSED = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "168.63.129.16/32",  # Azure's own services, reached from every VM there
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/3",
    )
)
"""IANA's special-purpose registry, multicast, reserved addresses, and addresses that clouds use for themselves."""
_V6_OPEN = IPv6Network("2000::/3")
"""No other range is public: loopback, link-local, unique local, multicast, NAT64, mapped and compatible IPv4."""
_V6_CLOSED = tuple(IPv6Network(network) for network in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"))
"""Teredo and the other protocol assignments, 6to4, documentation."""
_ISATAP = (0x00005EFE, 0x02005EFE)
_LOCAL = tuple(IPv4Network(network) for network in ("10.0.0.0/8", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"))
_LOCAL_V6 = (IPv6Network("::1/128"), IPv6Network("fc00::/7"))
_LOCAL_BUT_METADATA = IPv6Address("fd00:ec2::254")


_SETTING = "an operator allows http and local addresses with GPULEASE_WEBHOOK_LOCAL=true, if all tenants are trusted"


class RefusedUrl(Exception):
    """gpulease sends nothing to this URL. The message explains the refusal to the webhook's owner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A parsed URL. `host` is a name in lower case, or an address without brackets."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """The Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


def parse(url: str, *, local: bool) -> Target:
    """Parses a webhook URL. `local` also allows http, one-label names and the machine's names. Raises RefusedUrl."""
    match = _URL.fullmatch(url) if len(url) <= LONGEST_URL else None
    if match is None:
        raise RefusedUrl(
            "must be https://host/path: ASCII, no user or password, no fragment; an international name in its xn-- form"
        )
    scheme, port = match["scheme"], int(match["port"] or _PORTS[match["scheme"]])
    if scheme != "https" and not local:
        raise RefusedUrl(f"must begin with https:// ({_SETTING})")
    if not 1 <= port <= 65_535:
        raise RefusedUrl("has a port that does not exist")
    if not local and port != _PORTS["https"] and (port < _FIRST_FREE_PORT or port in _SERVICES):
        raise RefusedUrl("has the port of another service: only 443 and free ports from 1024 on are allowed")
    host = _host(match["host"], local=local)
    return Target(scheme=scheme, host=host, port=port, path=(match["path"] or "/") + (match["query"] or ""))


def check_addresses(addresses: list[str], *, local: bool) -> None:
    """Every address of a name must be allowed: the name's owner cannot choose which one is used. Raises RefusedUrl."""
    if not addresses:
        raise RefusedUrl("has a host without an address")
    for text in addresses:
        if not is_allowed(ip_address(text), local=local):
            raise RefusedUrl(f"leads to an address that is not public ({_SETTING})")


def is_allowed(address: Address, *, local: bool) -> bool:
    """Whether a connection is allowed. `local` also allows loopback and private addresses, except metadata services."""
    if isinstance(address, IPv4Address):
        closed = any(address in network for network in _V4_CLOSED)
        return not closed or (local and any(address in network for network in _LOCAL))
    if address.scope_id is not None:
        return False
    if local and any(address in network for network in _LOCAL_V6):
        return address != _LOCAL_BUT_METADATA
    closed = any(address in network for network in _V6_CLOSED) or (int(address) >> 32 & 0xFFFFFFFF) in _ISATAP
    return address in _V6_OPEN and not closed


def _host(text: str, *, local: bool) -> str:
    if text.startswith("["):
        try:
            address: Address = IPv6Address(text[1:-1])
        except ValueError:
            raise RefusedUrl("has a host that is no IPv6 address") from None
        check_addresses([str(address)], local=local)
        return str(address)
    labels = text.lower().split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return _written_address(text, local=local)
    if len(text) > _LONGEST_NAME or not all(_LABEL.fullmatch(label) for label in labels):
        raise RefusedUrl("has a host that is no name (a dot at its end is not allowed either)")
    if not local and (len(labels) == 1 or labels[-1] in {"localhost", "local", "internal"}):
        raise RefusedUrl("has a host that is no public name")
    return ".".join(labels)


def _written_address(text: str, *, local: bool) -> str:
    """Parses a host whose last label is a number: some programs read it as an address in one of many spellings.

    Only four plain decimal numbers are allowed.
    """
    try:
        address = IPv4Address(text)
    except ValueError:
        raise RefusedUrl("has a host that is neither a name nor an address of four plain decimal numbers") from None
    check_addresses([str(address)], local=local)
    return str(address)
