"""What AWS refuses, as a test wants to read it."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from botocore.exceptions import ClientError


@contextmanager
def refused(code: str, status: int | None = None) -> Iterator[None]:
    """The block ends in an error answer with this code (and HTTP status)."""
    with pytest.raises(ClientError) as caught:
        yield
    response = caught.value.response
    assert response["Error"]["Code"] == code, response
    if status is not None:
        assert response["ResponseMetadata"]["HTTPStatusCode"] == status
