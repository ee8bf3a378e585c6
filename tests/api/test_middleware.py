"""What all answers have in common."""

import pytest

from app.api.http import middleware
from tests.api.conftest import Caller
from tests.harness.lines import written_by


async def test_every_request_has_an_id_of_ours_whatever_the_caller_sends(alice: Caller) -> None:
    """A tenant could otherwise write log lines, events and audit entries under the id of another one's request."""
    ours = (await alice.get("/v1/me")).headers["x-request-id"]
    sent = {"trace-0001": "trace-0001", ours: ours, "short": None, "x" * 129: None, "new line?": None, "<script>": None}
    for text, logged in sent.items():
        with written_by(_log=middleware) as lines:
            made = await alice.get("/v1/me", headers={"X-Request-Id": text})
            [line] = lines.new()
        assert made.headers["x-request-id"].startswith("req_")
        assert made.headers["x-request-id"] not in (text, ours)
        assert (line["request_id"], line["caller_request_id"]) == (made.headers["x-request-id"], logged)


@pytest.mark.parametrize("path", ["/livez", "/v1/me", "/nothing", "/v1/tenants"])
async def test_every_answer_carries_the_protective_headers(operator: Caller, path: str) -> None:
    answer = await operator.get(path)
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert answer.headers["cache-control"] in {"no-store", "private, no-cache"}
    assert len(answer.headers.get_list("cache-control")) == 1


async def test_requests_are_counted_by_template_and_status(operator: Caller) -> None:
    await operator.get("/v1/tenants/nonsense")
    await operator.get("/nothing")
    text = (await operator.get("/metrics")).text
    assert 'gpulease_http_requests_total{method="GET",route="/v1/tenants/{tenant_id}",status="404"} 1.0' in text
    assert 'gpulease_http_requests_total{method="GET",route="unmatched",status="404"} 1.0' in text
    assert "nonsense" not in text


async def test_a_log_line_names_the_caller_and_holds_no_secret(alice: Caller) -> None:
    with written_by(_log=middleware) as lines:
        answer = await alice.get("/v1/me?token=hunter2")
        [line] = lines.new()
    assert (line["request_id"], line["tenant_id"]) == (answer.headers["x-request-id"], alice.tenant_id)
    assert line["address"] == "192.0.2.7"
    assert "hunter2" not in str(line)
    assert alice.key not in str(line)
