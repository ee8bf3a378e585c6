"""A port that somebody else has."""

import socket
from collections.abc import Iterator

import pytest

from app.local.ports import LOOPBACK


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server((LOOPBACK, 0)) as other:
        yield other.getsockname()[1]
