"""GET /v1/agent/program and /v1/agent/all-reduce: what a VM without room in its user data fetches."""

import pytest

from app.agent import program
from tests.api.conftest import Caller


@pytest.mark.parametrize(
    ("path", "source", "digest"),
    [
        ("/v1/agent/program", program.source(), program.digest()),
        ("/v1/agent/all-reduce", program.all_reduce_source(), program.all_reduce_digest()),
    ],
    ids=["agent", "all-reduce"],
)
async def test_a_program_needs_no_key_and_may_be_cached(
    anonymous: Caller, path: str, source: bytes, digest: str
) -> None:
    answer = await anonymous.get(path)
    assert (answer.status_code, answer.content) == (200, source)
    assert answer.headers["cache-control"] == "public, max-age=300"
    assert answer.headers["etag"] == f'"{digest}"'
    again = await anonymous.get(path, headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
