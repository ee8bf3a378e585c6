"""What the environment says about the network: proxies and certificates, read here alone.

`make clients` copies this module into the Python client. A variable that cannot be used is a NotConfiguredError with its
name. An entry of NO_PROXY that means nothing here is left out, because other programs put many forms there.
"""

import ipaddress
import os
import ssl
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from urllib.parse import urlsplit
from urllib.request import getproxies

import httpx

from app.cli.errors import NotConfiguredError

_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"Trusts nobody. Plain HTTP needs none of the certificates, whose reading takes a tenth of a second."
_PORTS = {"http": 80, "https": 443}


def find_proxy(url: str) -> httpx.Proxy | None:
    """The proxy for an address of the API, from the environment or the system's settings. None: a direct connection."""
    parts = urlsplit(url)
    known = getproxies()
    name = next((scheme for scheme in (parts.scheme, "all") if known.get(scheme)), None)
    if name is None or is_excluded(parts.hostname or "", parts.port or _PORTS[parts.scheme], known.get("no", "")):
        return None
    address = known[name] if "://" in known[name] else f"http://{known[name]}"
    try:
        proxy = httpx.Proxy(address)
    except (ValueError, httpx.InvalidURL):
        msg = f"{_variable(name)} is not the address of a proxy: use a form like http://proxy.example:3128"
        raise NotConfiguredError(msg) from None
    if proxy.url.scheme.startswith("socks") and find_spec("socksio") is None:
        msg = f"{_variable(name)} names a SOCKS proxy: install the package httpx[socks], or name an HTTP proxy"
        raise NotConfiguredError(msg)
    return proxy


def is_excluded(host: str, port: int, no_proxy: str) -> bool:
    """Whether NO_PROXY names the host: by its name, a parent domain, an address or a network, each with or without port."""
    return any(_names(entry, host.lower(), port) for entry in no_proxy.lower().replace(",", " ").split())


def tls_context(url: str, environ: Mapping[str, str] = os.environ) -> ssl.SSLContext:
    """The certificates to trust: those of SSL_CERT_FILE or SSL_CERT_DIR, else those of certifi."""
    if urlsplit(url).scheme == "http":
        return _NO_TLS
    _check_key_log(environ.get("SSLKEYLOGFILE"))
    file, folder = environ.get("SSL_CERT_FILE"), environ.get("SSL_CERT_DIR")
    try:
        if not file and not folder:
            return httpx.create_ssl_context(trust_env=False)
        return ssl.create_default_context(cafile=file) if file else ssl.create_default_context(capath=folder)
    except (OSError, ValueError) as error:
        variable = "SSL_CERT_FILE" if file else "SSL_CERT_DIR"
        msg = f"{variable}: {file or folder} has no certificates that can be read: {error}"
        raise NotConfiguredError(msg) from None


def _names(entry: str, host: str, port: int) -> bool:
    if entry == "*":
        return True
    name, separator, digits = entry.rpartition(":")
    if separator and digits == str(port) and name:  # otherwise the colons are those of an address
        return _names(name, host, port)
    plain = entry.removeprefix("[").removesuffix("]").removeprefix("*").removeprefix(".")
    with suppress(ValueError):
        return ipaddress.ip_address(host) in ipaddress.ip_network(plain, strict=False)
    return bool(plain) and (host == plain or host.endswith(f".{plain}"))


def _check_key_log(path: str | None) -> None:
    """Python opens the file when it makes a context, and names no variable when that fails."""
    if not path:
        return
    try:
        with open(path, "a"):  # noqa: PTH123 - a Path is another name than the one that ssl opens
            pass
    except (OSError, ValueError) as error:
        msg = f"SSLKEYLOGFILE: cannot write {path}: {error}"
        raise NotConfiguredError(msg) from None


def _variable(scheme: str) -> str:
    """The variable that names the proxy of this scheme, in the spelling that is set."""
    names = (f"{scheme}_proxy", f"{scheme}_proxy".upper())
    return next((name for name in names if os.environ.get(name)), "the system's proxy setting")
