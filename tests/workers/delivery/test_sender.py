"""A message goes to the address that was checked, under the name's own Host and certificate, and nowhere else."""

import datetime as dt
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from app.domain.webhooks.retries import Outcome
from app.domain.webhooks.urls import RefusedUrl
from app.local.ports import free_port
from app.name_lookup import look_up, within
from tests.workers.receiver import Receiver, receiving
from workers.delivery.sender import Sender

NAME = "hooks.example.org"
METADATA = "169.254.169.254"
NOBODY = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Trusts no authority; loading the usual ones for each test costs more than the test."""


class Names:
    """A resolver whose answers follow one another; the last one stays."""

    def __init__(self, *answers: list[str]) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    def __call__(self, host: str, port: int) -> list[str]:
        del port
        self.asked.append(host)
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


class Dialled:
    """Every address to which a connection is begun."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.addresses: list[str] = []
        connect = socket.create_connection

        def watched(address: tuple[str, int], *more: Any, **named: Any) -> socket.socket:
            self.addresses.append(address[0])
            return connect(address, *more, **named)

        monkeypatch.setattr(socket, "create_connection", watched)


@pytest.fixture
def dialled(monkeypatch: pytest.MonkeyPatch) -> Dialled:
    return Dialled(monkeypatch)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


def sender(*answers: list[str], local: bool = True, tls: ssl.SSLContext | None = None, seconds: float = 5.0) -> Sender:
    return Sender(local=local, seconds=seconds, lookup=Names(*answers) if answers else look_up, tls=tls or NOBODY)


def named(receiver: Receiver, scheme: str = "http") -> str:
    return receiver.url.replace("http", scheme, 1).replace("127.0.0.1", NAME)


def test_the_connection_goes_to_the_address_that_was_checked_under_the_names_own_host(
    receiver: Receiver, dialled: Dialled
) -> None:
    assert sender(["127.0.0.1"]).send(named(receiver), {}, b"{}") == Outcome(status=204)
    port = receiver.url.rpartition(":")[2].removesuffix("/hook")
    assert receiver.got[0].headers["host"] == f"{NAME}:{port}"
    assert dialled.addresses == ["127.0.0.1"]


@pytest.mark.parametrize(
    "answer", [[METADATA], ["127.0.0.1", METADATA], [METADATA, "127.0.0.1"], ["::ffff:127.0.0.1"], []]
)
def test_a_name_that_leads_anywhere_else_as_well_is_not_connected_to(
    receiver: Receiver, dialled: Dialled, answer: list[str]
) -> None:
    outcome = sender(answer).send(named(receiver), {}, b"{}")
    assert outcome.status is None
    assert outcome.error is not None
    assert (receiver.got, dialled.addresses) == ([], [])


def test_a_name_that_is_led_elsewhere_between_look_and_connection_is_looked_up_once(
    receiver: Receiver, dialled: Dialled
) -> None:
    """DNS rebinding: the first answer is harmless, all later ones lead inside."""
    names = Names(["127.0.0.1"], [METADATA])
    mine = Sender(local=True, seconds=5.0, lookup=names, tls=NOBODY)
    assert mine.send(named(receiver), {}, b"{}").status == 204
    assert names.asked == [NAME]
    assert mine.send(named(receiver), {}, b"{}").status is None
    assert len(names.asked) == 2
    assert dialled.addresses == ["127.0.0.1"]


@pytest.mark.parametrize("answer", ["127.0.0.1", "10.0.0.1", "::1", "fd00::1", METADATA])
def test_without_local_use_no_name_leads_to_an_inner_address(receiver: Receiver, dialled: Dialled, answer: str) -> None:
    outcome = sender([answer], local=False).send(named(receiver, "https"), {}, b"{}")
    without_tls = sender([answer], local=False).send(named(receiver), {}, b"{}")
    assert (outcome.status, without_tls.status) == (None, None)
    assert str(outcome.error).startswith("the URL leads to an address that is not public (")
    assert str(without_tls.error).startswith("the URL must begin with https:// (")
    assert "GPULEASE_WEBHOOK_LOCAL=true" in str(outcome.error)
    assert dialled.addresses == []


def test_a_redirect_is_an_answer_and_not_followed(receiver: Receiver, dialled: Dialled) -> None:
    receiver.answer = lambda _: 307
    receiver.headers = {"Location": receiver.url}
    outcome = sender().send(receiver.url, {}, b"{}")
    assert outcome == Outcome(status=307, error="answered 307 (redirects are not followed)")
    assert (len(receiver.got), len(dialled.addresses)) == (1, 1)


def test_the_second_address_is_used_when_the_first_does_not_answer(receiver: Receiver) -> None:
    assert sender(["::1", "127.0.0.1"]).send(named(receiver), {}, b"{}").status == 204


def test_nobody_there_is_no_answer() -> None:
    outcome = sender().send(f"http://127.0.0.1:{free_port()}/", {}, b"{}")
    assert outcome.away
    assert outcome.error is not None
    assert outcome.error.startswith("ConnectError")


@pytest.mark.parametrize("said", [b"HTTP/1.1 200 OK\r\nA: ", b"no HTTP at all\r\n\r\n", b""])
def test_a_receiver_that_never_comes_to_an_end_is_not_waited_for(said: bytes) -> None:
    """It sends a byte now and then, so that no single wait is ever long."""
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def trickle() -> None:
            connection, _ = server.accept()
            with connection:
                connection.settimeout(5)
                try:
                    connection.sendall(said)
                    while not stop.wait(0.05):
                        connection.sendall(b"x")
                except OSError:
                    return

        thread = threading.Thread(target=trickle)
        thread.start()
        outcome = sender(seconds=0.5).send(f"http://127.0.0.1:{server.getsockname()[1]}/", {}, b"{}")
        stop.set()
        thread.join(10)
    assert outcome.status is None
    assert outcome.away


def test_a_name_that_is_not_resolved_in_time_is_refused() -> None:
    forever = threading.Event()

    def hangs(_host: str, _port: int) -> list[str]:
        forever.wait(30)
        return ["127.0.0.1"]

    with pytest.raises(RefusedUrl, match="in time"):
        within(0.05, hangs, NAME, 443)
    forever.set()


def test_a_name_that_does_not_exist_is_refused() -> None:
    def fails(_host: str, _port: int) -> list[str]:
        raise socket.gaierror

    with pytest.raises(RefusedUrl, match="cannot be resolved"):
        within(5, fails, NAME, 443)


def certificate(folder: Path, name: str) -> ssl.SSLContext:
    """A server's context; its certificate, which stands for itself, is in `folder`."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    begins = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(begins + dt.timedelta(days=36_500))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, private = folder / "cert.pem", folder / "key.pem"
    pem.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem, private)
    return context


def test_tls_is_checked_for_the_name_and_not_for_the_address(tmp_path: Path) -> None:
    context = certificate(tmp_path, NAME)
    trusting = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
    with receiving(context) as receiver:
        asked: list[str | None] = []
        context.sni_callback = lambda _socket, name, _context: asked.append(name)
        tls = sender(["127.0.0.1"], tls=trusting)
        assert tls.send(named(receiver, "https"), {}, b"{}").status == 204
        assert asked == [NAME]
        other = named(receiver, "https").replace(NAME, "other.example.org")
        refused = tls.send(other, {}, b"{}")
        assert refused.status is None
        assert "certificate" in (refused.error or "")
        strict = Sender(local=True, seconds=5.0, lookup=Names(["127.0.0.1"])).send(named(receiver, "https"), {}, b"{}")
        assert strict.status is None
        assert len(receiver.got) == 1
