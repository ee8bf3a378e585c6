"""GET /v1/agent/program: what a VM without room in its user data fetches."""

from app.agent import program
from tests.api.conftest import Caller


async def test_the_program_needs_no_key_and_may_be_cached(anonymous: Caller) -> None:
    answer = await anonymous.get("/v1/agent/program")
    assert (answer.status_code, answer.content) == (200, program.source())
    assert answer.headers["cache-control"] == "public, max-age=300"
    assert answer.headers["etag"] == f'"{program.digest()}"'
    again = await anonymous.get("/v1/agent/program", headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
