"""Each variable about the network with right, wrong and strange values, at the doors that read it."""

from pathlib import Path
from types import ModuleType
from typing import Any

import certifi
import pytest

from app.cli import network
from app.cli.client import Api
from app.cli.endpoint import Endpoint
from app.cli.errors import NotConfiguredError

URL = "https://gpulease.example"
VARIABLES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE")
STRANGE = (
    "localhost,127.0.0.1,::1,[::1]",
    "fd07:b51a:cc66:f0::/64",
    "http://127.0.0.1:abc",
    "http://[::1",
    "http://",
    "://",
    "proxy.example:3128",
    "socks5://127.0.0.1:1080",
    "ftp://proxy.example",
    "http://user:p%40ss@proxy.example:3128",
    "*",
    ",,",
    " ",
    "é",
    "/nowhere/at/all",
    "/dev/null",
    "/",
)


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """certifi's file, with one of its certificates: reading all of them for each client takes 10 ms."""
    path = tmp_path / "bundle" / "cacert.pem"
    path.parent.mkdir()
    end = "-----END CERTIFICATE-----\n"
    path.write_text(Path(certifi.where()).read_text(encoding="utf-8").partition(end)[0] + end, encoding="utf-8")
    monkeypatch.setattr(certifi, "where", lambda: str(path))
    return path


@pytest.mark.parametrize("variable", VARIABLES)
def test_a_variable_is_used_or_named(
    variable: str, monkeypatch: pytest.MonkeyPatch, gpulease_client: ModuleType, tmp_path: Path, bundle: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for value in (*STRANGE, str(bundle), str(bundle.parent)):
        monkeypatch.setenv(variable, value)
        outcomes = [
            _door(NotConfiguredError, _command_line),
            _door(gpulease_client.NotConfiguredError, lambda: gpulease_client.Client(URL, "gpl_x").close()),
        ]
        assert outcomes[0] == outcomes[1], (value, outcomes)
        assert outcomes[0] is None or variable in outcomes[0] or variable.lower() in outcomes[0], (value, outcomes)
        if variable == "NO_PROXY":
            assert outcomes[0] is None


def _command_line() -> None:
    """The MCP server opens the same client."""
    Api(Endpoint(URL, "gpl_x"), note=lambda _: None).__exit__()


def _door(wrong: type[Exception], work: Any) -> str | None:
    """The message of the one error that a variable may cause. None: it can be used."""
    try:
        work()
    except wrong as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("entry", "excluded"),
    [
        ("gpulease.example", True),
        (".example", True),
        ("*.example", True),
        ("example", True),
        ("gpulease.example:443", True),
        ("gpulease.example:8443", False),
        ("lease.example", False),
        ("*", True),
        ("10.0.0.0/8", False),
        ("[::1]", False),
        ("", False),
    ],
)
def test_no_proxy_names_hosts_domains_and_ports(entry: str, excluded: bool) -> None:
    assert network.is_excluded("gpulease.example", 443, f"x.test,{entry}") is excluded


@pytest.mark.parametrize("entry", ["10.0.0.0/8", "10.1.2.3", "10.1.2.3:8000", "10.1.2.3/32"])
def test_no_proxy_names_addresses_and_networks(entry: str) -> None:
    assert network.is_excluded("10.1.2.3", 8000, entry)
    assert not network.is_excluded("11.1.2.3", 8000, entry)
