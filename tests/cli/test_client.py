"""Certificates: checked wherever there is TLS."""

import socket
import ssl
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from app.cli.client import Api
from app.cli.endpoint import Endpoint
from app.cli.errors import UnreachableError


@pytest.fixture
def self_signed(tmp_path: Path) -> Iterator[int]:
    """The port of a TLS server that nobody vouches for; it ends every connection after the handshake."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.fromtimestamp(time.time(), UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    builder = x509.CertificateBuilder(
        name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(1)
    )
    certificate = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False).sign(
        key, hashes.SHA256()
    )
    both = tmp_path / "both.pem"
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    both.write_bytes(certificate.public_bytes(pem) + private)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(both)
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                accepted, _ = listening.accept()
            except OSError:
                return
            try:
                context.wrap_socket(accepted, server_side=True).close()
            except OSError:
                accepted.close()

    server = threading.Thread(target=serve)
    server.start()
    yield listening.getsockname()[1]
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()
    server.join()


@pytest.mark.parametrize("scheme", ["https", "HTTPS"])
def test_a_server_that_nobody_vouches_for_never_gets_the_key(self_signed: int, scheme: str) -> None:
    endpoint = Endpoint(f"{scheme}://localhost:{self_signed}", "gpl_secret")
    with Api(endpoint, note=lambda _: None, pause=lambda _: None) as api, pytest.raises(UnreachableError) as refused:
        api.get("/v1/me")
    assert "certificate verify failed" in str(refused.value)
