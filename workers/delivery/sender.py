"""Sends one message to a webhook's receiver: to an address that was checked just now, once, and not for long."""

import ssl
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import httpcore

from app.domain.webhooks.retries import Outcome, retry_after
from app.domain.webhooks.urls import RefusedUrl, Target, check_addresses, parse
from app.name_lookup import Lookup, look_up, within

_LOOKUP_SECONDS = 5.0
_ADDRESSES_TRIED = 2
_LONGEST_ERROR = 200


class Sender:
    """`local`: to http, loopback and private addresses too. `tls`: None trusts the usual authorities."""

    def __init__(
        self, *, local: bool, seconds: float, lookup: Lookup = look_up, tls: ssl.SSLContext | None = None
    ) -> None:
        self._local = local
        self._seconds = seconds
        self._lookup = lookup
        self._tls = tls or httpcore.default_ssl_context()

    def send(self, url: str, headers: Mapping[str, str], body: bytes) -> Outcome:
        """Never raises for what the receiver or its name does. No redirect is followed, no body is read."""
        try:
            target = parse(url, local=self._local)
            addresses = within(_LOOKUP_SECONDS, self._lookup, target.host, target.port)
            check_addresses(addresses, local=self._local)
        except RefusedUrl as refused:
            return Outcome(status=None, error=f"the URL {refused}")
        return self._post(target, addresses[:_ADDRESSES_TRIED], headers, body)

    def _post(self, target: Target, addresses: list[str], headers: Mapping[str, str], body: bytes) -> Outcome:
        url = httpcore.URL(scheme=target.scheme, host=target.host, port=target.port, target=target.path)
        every = {"Host": target.authority, "User-Agent": "gpulease-webhooks/1", "Content-Type": "application/json"}
        every.update(headers)
        timeouts = dict.fromkeys(("connect", "read", "write", "pool"), self._seconds)
        backend = _PinnedBackend(addresses, time.monotonic() + self._seconds)
        try:
            with (
                httpcore.ConnectionPool(self._tls, network_backend=backend) as pool,
                pool.stream(
                    "POST", url, headers=list(every.items()), content=body, extensions={"timeout": timeouts}
                ) as answer,
            ):
                fields = {name.lower(): value for name, value in answer.headers}
                return _outcome(answer.status, fields.get(b"retry-after", b""))
        except httpcore.TimeoutException:
            return Outcome(status=None, error=f"no answer within {self._seconds:g} seconds")
        except (httpcore.NetworkError, httpcore.ProtocolError) as error:
            return Outcome(status=None, error=f"{type(error).__name__}: {error}"[:_LONGEST_ERROR])


def _outcome(status: int, wait: bytes) -> Outcome:
    """`wait`: the value of Retry-After."""
    made = Outcome(status=status)
    if made.delivered:
        return made
    redirect = " (redirects are not followed)" if 300 <= status < 400 else ""
    rest = retry_after(status, wait.decode("latin-1").strip(), datetime.fromtimestamp(time.time(), UTC))
    return Outcome(status=status, error=f"answered {status}{redirect}", retry_after=rest)


class _PinnedBackend(httpcore.NetworkBackend):
    """Connects to addresses that were checked, whatever the name leads to by now; all of it ends at one time."""

    def __init__(self, addresses: list[str], ends: float) -> None:
        self._addresses = addresses
        self._ends = ends
        self._backend = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """The first address that takes the connection. Raises what httpcore expects."""
        del host, timeout
        *first, last = self._addresses
        for address in first:
            try:
                return self._connect(address, port, local_address, socket_options)
            except httpcore.ConnectError:
                continue
        return self._connect(last, port, local_address, socket_options)

    def _connect(
        self, address: str, port: int, local_address: str | None, options: Iterable[Any] | None
    ) -> httpcore.NetworkStream:
        left = _left(self._ends, httpcore.ConnectTimeout)
        return _DeadlineStream(self._backend.connect_tcp(address, port, left, local_address, options), self._ends)


class _DeadlineStream(httpcore.NetworkStream):
    """A connection whose waits end at one time together: a receiver that sends a byte now and then is not waited for."""

    def __init__(self, stream: httpcore.NetworkStream, ends: float) -> None:
        self._stream = stream
        self._ends = ends

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """As httpcore's own, like the rest."""
        del timeout
        return self._stream.read(max_bytes, _left(self._ends, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        del timeout
        self._stream.write(buffer, _left(self._ends, httpcore.WriteTimeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        """`server_hostname` is the URL's name, so that the certificate is checked for it."""
        del timeout
        left = _left(self._ends, httpcore.ConnectTimeout)
        return _DeadlineStream(self._stream.start_tls(ssl_context, server_hostname, left), self._ends)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _left(ends: float, late: type[httpcore.TimeoutException]) -> float:
    """Seconds. Raises `late` when there are none."""
    left = ends - time.monotonic()
    if left <= 0:
        raise late
    return left
