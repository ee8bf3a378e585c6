"""Errors of the Python client: they survive pickle and copy, and nothing else leaves a call."""

import copy
import json
import pickle
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import httpx
import pytest

from app.cli.client import Api
from app.cli.endpoint import Endpoint
from app.cli.errors import CliError
from tests.api.clients.lossy import example

PAGE = "<html><body>Sign in</body></html>"
SUCCESSES = {
    "html": {"text": PAGE, "headers": {"Content-Type": "text/html"}},
    "html called json": {"text": PAGE, "headers": {"Content-Type": "application/json"}},
    "empty": {"text": "", "headers": {"Content-Type": "application/json"}},
    "empty without a type": {"content": b""},
    "cut": {"text": '{"id": "lease_01', "headers": {"Content-Type": "application/json"}},
    "list": {"json": []},
    "text": {"json": "yes"},
    "null": {"json": None},
    "bytes": {"content": b"\xff\xfe\x00", "headers": {"Content-Type": "application/json"}},
}


def _kinds(kind: Any) -> Iterator[Any]:
    yield kind
    for one in kind.__subclasses__():
        yield from _kinds(one)


def test_every_error_survives_pickle_and_copy(gpulease_client: ModuleType) -> None:
    lease = gpulease_client.models.Lease.from_dict(example("/v1/leases", "post", "201"))
    group = gpulease_client.models.Group.from_dict(example("/v1/groups", "post", "201"))
    problem = {"code": "not_found", "title": "No", "detail": "no", "request_id": "r", "limit": 8}
    kinds = list(_kinds(gpulease_client.GpuleaseError))
    assert len(kinds) > 30
    for kind in kinds:
        if issubclass(kind, gpulease_client.ApiError):
            error = kind(problem, status=404, retry_after=3.0)
        else:
            given: dict[str, tuple[Any, ...]] = {
                "UnexpectedResponseError": (502, PAGE),
                "LeaseEndedError": (lease,),
                "WaitTimeoutError": (lease, "active"),
                "GroupEndedError": (group,),
                "GroupTimeoutError": (group, "formed"),
            }
            error = kind(*given.get(kind.__name__, ("why",)))
        error.idempotency_key = "key"
        for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):  # noqa: S301 - our own
            assert type(twin) is kind
            assert (str(twin), twin.args) == (str(error), error.args)
            assert twin.__dict__.keys() == error.__dict__.keys()
            assert twin.idempotency_key == "key"


@pytest.mark.parametrize("answer", SUCCESSES.values(), ids=SUCCESSES)
@pytest.mark.parametrize("status", [200, 201])
def test_a_success_that_is_not_the_apis_is_an_error_of_the_package(
    gpulease_client: ModuleType, answer: dict[str, Any], status: int
) -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(status, **answer))
    retries = gpulease_client.Retries(attempts=2, first_pause=0.0)
    with gpulease_client.Client("http://api.test", "key", retries=retries, transport=transport) as client:
        for call in (
            lambda: client.leases.create(gpu={"model": "T4"}, ttl_seconds=60),
            lambda: client.leases.get("lease_1"),
            lambda: list(client.leases.list()),
            lambda: client.leases.update("lease_1", name="x"),
        ):
            with pytest.raises(gpulease_client.GpuleaseError):
                call()
    with Api(
        Endpoint("http://api.test", "gpl_x"), note=lambda _: None, pause=lambda _: None, transport=transport
    ) as api:
        for ask in (lambda: api.get("/v1/me"), lambda: api.create("/v1/leases", {}), lambda: api.delete("/v1/keys/x")):
            with pytest.raises(CliError):
                ask()


@pytest.mark.parametrize("document", [{}, {"id": 1}, {"items": 3}, {"items": [1], "next_cursor": None}])
def test_an_object_of_another_form_is_an_error_of_the_package(gpulease_client: ModuleType, document: Any) -> None:
    transport = httpx.MockTransport(
        lambda _: httpx.Response(200, content=json.dumps(document), headers={"Content-Type": "application/json"})
    )
    with gpulease_client.Client("http://api.test", "key", transport=transport) as client:
        with pytest.raises(gpulease_client.UnexpectedResponseError):
            client.leases.get("lease_1")
        with pytest.raises(gpulease_client.UnexpectedResponseError):
            list(client.leases.list())
