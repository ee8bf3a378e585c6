"""No spelling of a URL leads a webhook to an address that is not public."""

from collections.abc import Callable
from ipaddress import ip_address

import pytest

from app.domain.webhooks.urls import RefusedUrl, check_addresses, is_allowed, parse

LOOPBACK = [
    "127.0.0.1",
    "2130706433",
    "0x7f000001",
    "0x7F.0.0.1",
    "0177.0.0.1",
    "017700000001",
    "127.1",
    "127.0.1",
    "127.0.0.1.",
    "127.000.000.001",
    "0x7f.1",
    "0",
    "0x",
    "1.2.3.4.5",
    "256.1.1.1",
    "1.2.3.08",
    "127。0。0。1",
    "\uff11\uff12\uff17.0.0.1",
    "①②⑦.0.0.1",
    "127%2e0.0.1",
    "%31%32%37.0.0.1",
    "[::1]",
    "[0:0:0:0:0:0:0:1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[0:0:0:0:0:ffff:127.0.0.1]",
    "[::127.0.0.1]",
    "[::]",
    "[::1%25lo]",
    "[fe80::1%eth0]",
    "[v1.fe80]",
    "localhost",
    "LOCALHOST",
    "localhost.",
    "a.localhost",
    "ⓛocalhost",
    "intranet",
    "printer.local",
    "metadata.google.internal",
    "-a.example.org",
    "a..example.org",
    "a_b.example.org",
    "",
    ".",
    "example.org.",
    "bücher.example",
]
"""Hosts that are refused as they are written."""

ODD = [
    "http://example.org/",
    "HTTPS://example.org/",
    "ftp://example.org/",
    "file:///etc/passwd",
    "gopher://example.org/",
    "//example.org/",
    "example.org",
    "https:/example.org/",
    "https:example.org",
    "https://user@example.org/",
    "https://user:word@example.org/",
    "https://example.org@127.0.0.1/",
    "https://example.org:443@127.0.0.1/",
    "https://127.0.0.1#@example.org/",
    "https://example.org\\@127.0.0.1/",
    "https://example.org/#fragment",
    "https://example.org:0/",
    "https://example.org:65536/",
    "https://example.org:99999999/",
    "https://example.org:/",
    "https://example.org:80a/",
    "https://example.org /",
    " https://example.org/",
    "https://example.org/\n",
    "https://example.org/\r\nHost: 127.0.0.1",
    "https://exam\tple.org/",
    "https://example.org/\x00",
    "https://example.org/ä",
    "https://[2606:4700::1111/",
    "https://2606:4700::1111/",
    "https://example.org/" + "a" * 2000,
    "https://" + "a" * 64 + ".example.org/",
    "https://" + "a." * 130 + "org/",
]

CLOSED = [
    *("0.0.0.0", "0.1.2.3", "10.1.2.3", "100.64.0.1", "100.100.100.200", "127.255.255.254", "169.254.169.254"),
    *("168.63.129.16", "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.1.1"),
    *("198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255"),
    *(
        "::",
        "::1",
        "::ffff:8.8.8.8",
        "::8.8.8.8",
        "64:ff9b::8.8.8.8",
        "64:ff9b:1::1",
        "100::1",
        "fc00::1",
        "fd00:ec2::254",
    ),
    *(
        "fe80::1",
        "fec0::1",
        "ff02::1",
        "2001::1",
        "2001:0:53aa:64c:0:0:0:1",
        "2001:20::1",
        "2001:db8::1",
        "2002:7f00:1::",
    ),
    *("2002:a9fe:a9fe::1", "3fff::1", "4000::1", "2606:4700::5efe:7f00:1", "2606:4700::200:5efe:7f00:1"),
]
OPEN = ["8.8.8.8", "1.1.1.1", "93.184.216.34", "168.63.129.17", "172.32.0.1", "192.0.1.1", "2606:4700:4700::1111"]


def is_refused(check: Callable[..., object], asked: object) -> bool:
    try:
        check(asked, local=False)
    except RefusedUrl:
        return True
    return False


def test_a_host_that_is_not_plainly_public_is_refused() -> None:
    assert [host for host in LOOPBACK if not is_refused(parse, f"https://{host}/hook")] == []


def test_a_url_that_could_be_read_in_two_ways_is_refused() -> None:
    assert [url for url in ODD if not is_refused(parse, url)] == []


def test_an_address_that_is_not_public_is_refused_resolved_and_written() -> None:
    written = {address: f"[{address}]" if ":" in address else address for address in CLOSED}
    assert [address for address in CLOSED if is_allowed(ip_address(address), local=False)] == []
    assert [address for address in CLOSED if not is_refused(check_addresses, [address])] == []
    assert [address for address in CLOSED if not is_refused(parse, f"https://{written[address]}/")] == []


@pytest.mark.parametrize("address", OPEN)
def test_public_addresses_are_allowed_and_shown_as_they_are(address: str) -> None:
    written = f"[{address}]" if ":" in address else address
    target = parse(f"https://{written}:8443/a?b=c", local=False)
    assert (target.host, target.port, target.path) == (address, 8443, "/a?b=c")
    assert target.authority == f"{written}:8443"


@pytest.mark.parametrize("port", [1, 22, 25, 80, 1023, 2375, 5432, 6379, 11_211, 27_017])
def test_a_port_of_another_service_is_refused(port: int) -> None:
    assert is_refused(parse, f"https://hooks.example.org:{port}/")
    assert parse(f"https://hooks.example.org:{port}/", local=True).port == port


@pytest.mark.parametrize("port", [443, 1024, 8080, 8443, 65_535])
def test_the_port_of_https_and_free_ports_are_allowed(port: int) -> None:
    assert parse(f"https://hooks.example.org:{port}/", local=False).port == port


def test_one_closed_address_among_several_closes_the_name() -> None:
    check_addresses(OPEN, local=False)
    for address in CLOSED:
        with pytest.raises(RefusedUrl):
            check_addresses([*OPEN, address], local=False)
    with pytest.raises(RefusedUrl):
        check_addresses([], local=False)


def test_a_name_is_taken_in_lower_case_with_its_usual_port() -> None:
    target = parse("https://Hooks.Example.ORG", local=False)
    assert (target.host, target.port, target.path, target.authority) == (
        "hooks.example.org",
        443,
        "/",
        "hooks.example.org",
    )


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000/", "http://[::1]/", "http://localhost/", "https://10.0.0.1/"])
def test_local_use_opens_loopback_private_addresses_and_http(url: str) -> None:
    assert parse(url, local=True).host
    with pytest.raises(RefusedUrl):
        parse(url, local=False)


@pytest.mark.parametrize(
    "address", ["169.254.169.254", "fe80::1", "0.0.0.0", "224.0.0.1", "fd00:ec2::254", "::", "::ffff:127.0.0.1"]
)
def test_local_use_opens_no_metadata_service(address: str) -> None:
    assert not is_allowed(ip_address(address), local=True)
