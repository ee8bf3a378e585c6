"""A deprecated operation says so in each response, in openapi.json and in the generated clients."""

from datetime import date

import pytest
from fastapi import FastAPI, Response

from app.api.http.deprecations import SHORTEST_NOTICE_DAYS, deprecated, find_deprecation
from app.api.http.openapi_document import document
from app.api.http.routing import Viewer, router
from app.api.routes import me
from tests.api.conftest import Caller

SINCE, SUNSET = date(2027, 1, 1), date(2027, 7, 2)
HEADERS = {
    "deprecation": "@1798761600",
    "sunset": "Fri, 02 Jul 2027 00:00:00 GMT",
    "link": '</docs/deprecation>; rel="deprecation"; type="text/html"',
}

old = router("me")


@old.get("/v1/old")
@deprecated(SINCE, SUNSET, "Use `GET /v1/me`.")
async def get_old(principal: Viewer) -> Response:
    """Read something old."""
    return Response(status_code=204)


async def test_every_response_has_the_headers_refusals_too(alice: Caller, anonymous: Caller) -> None:
    alice.app.router.routes.extend(old.routes)
    for caller, status in ((alice, 204), (anonymous, 401)):
        response = await caller.get("/v1/old")
        assert response.status_code == status
        assert {name: response.headers.get(name) for name in HEADERS} == HEADERS
    assert not set(HEADERS) & set((await alice.get("/v1/me")).headers)


def test_the_document_marks_the_operation() -> None:
    app = FastAPI()
    app.router.routes.extend([*me.router.routes, *old.routes])
    operation = document(app)["paths"]["/v1/old"]["get"]
    assert operation["deprecated"] is True
    assert operation["description"].startswith(
        "Deprecated since 2027-01-01. The operation works until 2027-07-02. Use `GET /v1/me`."
    )
    assert {"Deprecation", "Sunset", "Link"} <= set(operation["responses"]["200"]["headers"])


def test_a_notice_shorter_than_the_policy_is_refused() -> None:
    with pytest.raises(ValueError, match=f"at least {SHORTEST_NOTICE_DAYS} days"):
        deprecated(SINCE, date(2027, 6, 29), "Use something else.")


def test_an_endpoint_that_is_not_marked_is_current() -> None:
    assert find_deprecation(test_an_endpoint_that_is_not_marked_is_current) is None
