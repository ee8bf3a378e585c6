"""One lease can be followed through the lines of API and worker, by its id and by the id of the request that asked for it."""

from collections.abc import Iterator
from typing import Any

import pytest

from app.api.http import middleware
from app.domain.ids import LeaseId
from app.domain.lifecycle import Send
from app.prerequisites import ensure_operator_key
from app.settings import load_settings
from tests.api.conftest import Caller, new_tenant, serving
from tests.harness.lines import Lines, written_by
from tests.workers.fleet import Fleet
from workers.lifecycle import reconciler
from workers.lifecycle.step_table import STEPS, StepSpec
from workers.lifecycle.steps.context import StepContext


@pytest.fixture
def lines(fleet: Fleet) -> Iterator[Lines]:
    """Of API and worker."""
    with written_by(log=reconciler, _log=middleware) as made:
        yield made


def by(told: list[dict[str, Any]], **facts: str) -> list[dict[str, Any]]:
    return [line for line in told if all(line.get(name) == value for name, value in facts.items())]


async def test_a_lease_is_followed_through_api_and_worker(
    fleet: Fleet, database_url: str, broker_url: str, lines: Lines
) -> None:
    async with serving(load_settings(database_url=database_url, broker_url=broker_url)) as app:
        tenant = await new_tenant(Caller(app, ensure_operator_key(database_url, None)), "alice", gpus=8)
        new = {"instance_types": ["g5.xlarge"], "ttl_seconds": 3600}
        made = await tenant.post("/v1/leases", json=new)
        assert made.status_code == 201, made.text
        lease_id = LeaseId(made.json()["id"])
        fleet.drive_to(lease_id, "active")
        attempt_id = fleet.attempts(lease_id)[0].id
        first = lines.new()
        ended_by = await tenant.delete(f"/v1/leases/{lease_id}")
        fleet.drive_to(lease_id, "released")
        second = lines.new()
    about = {"lease_id": lease_id, "tenant_id": tenant.tenant_id}
    create_id, release_id = (answer.headers["x-request-id"] for answer in (made, ended_by))
    assert [line["event"] for line in by(first, path="/v1/leases", request_id=create_id, **about)] == ["request"]
    assert {line["step"] for line in by(first, event="step", request_id=create_id, **about)} >= {
        "Place",
        "Send",
        "Enter",
    }
    assert by(first, step="Send", attempt_id=attempt_id, request_id=create_id, **about)
    assert len(by(second, event="request", request_id=release_id, **about)) == 1
    ended = by(second, event="step", request_id=release_id, attempt_id=attempt_id, **about)
    assert [line["step"] for line in ended][-1] == "Finish"
    assert not by(second, request_id=create_id)


def test_a_failure_is_told_with_the_same_names_and_the_next_lease_is_not_confused_with_it(
    fleet: Fleet, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.may_break_off = True

    def broken(ctx: StepContext) -> None:
        raise RuntimeError("a bug")

    with monkeypatch.context() as patch:
        patch.setitem(STEPS, Send, StepSpec(broken))
        failed, other = fleet.create(), fleet.create(instance_types=["no-such-type"])
        fleet.drive(lambda: fleet.lease(other).state == "failed" and "step failed" in lines.stream.getvalue())
    told = lines.new()
    [line] = by(told, event="step failed")
    assert (line["lease_id"], line["attempt_id"]) == (failed, fleet.attempts(failed)[0].id)
    assert "a bug" in line["exception"]
    assert not by(told, lease_id=other, attempt_id=line["attempt_id"])
    fleet.end(failed)
    fleet.make_due(failed)
    fleet.drive_to(failed, "released", "failed")
