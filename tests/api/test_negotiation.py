"""What clients accept: weights of zero refuse, whatever stands beside them."""

import pytest
from fastapi import Request

from app.api.http.negotiation import accepts_gzip, prefers_csv
from tests.api.conftest import Caller


def request(**headers: str) -> Request:
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "query_string": b"", "headers": raw})


@pytest.mark.parametrize(
    "header", ["gzip", "GZIP", "identity, gzip", "gzip;q=0.1", "br;q=1, gzip ; q=1", "*", "x-gzip"]
)
def test_gzip_is_accepted(header: str) -> None:
    assert accepts_gzip(request(accept_encoding=header))


@pytest.mark.parametrize(
    "header",
    ["", "identity", "gzip;q=0, identity", "gzip; Q=0.000", "*;q=0", "*, gzip;q=0", "gzip;q=none", "notgzip", "br"],
)
def test_gzip_is_refused(header: str) -> None:
    assert not accepts_gzip(request(accept_encoding=header))
    assert not accepts_gzip(request())


@pytest.mark.parametrize(
    ("header", "csv"),
    [
        ("text/csv", True),
        ("text/csv, application/json", True),
        ("application/json, text/csv", False),
        ("application/json;q=0.5, text/csv", True),
        ("text/csv;q=0.5, */*", False),
        ("text/csv;q=0", False),
        ("text/html, TEXT/CSV;charset=utf-8", True),
        ("*/*", False),
        ("", False),
    ],
)
def test_csv_is_preferred(header: str, *, csv: bool) -> None:
    assert prefers_csv(request(accept=header)) is csv


@pytest.mark.parametrize("header", ["gzip;q=0, identity", "*;q=0"])
async def test_the_export_is_not_compressed_for_who_refuses_it(alice: Caller, header: str) -> None:
    answer = await alice.get("/v1/costs/focus", headers={"Accept-Encoding": header})
    assert (answer.status_code, "content-encoding" in answer.headers) == (200, False)
