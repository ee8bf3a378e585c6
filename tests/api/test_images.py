"""Images by name: what is listed, what is refused, what a plan says."""

import json
from typing import Any

import pytest

from app.api.schemas.images import NamedImagePage
from tests.api.conftest import Caller, MakeSettings
from tests.api.fleet import Fleet


@pytest.fixture
def make_settings(make_settings: MakeSettings) -> MakeSettings:
    """As ever, with a catalogue that is always read anew."""
    return lambda **overrides: make_settings(catalogue_cache_seconds=0, **overrides)


@pytest.fixture(autouse=True)
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    made.account("other")
    made.offering("g5.xlarge", account="other")
    for name, images in (("main", {}), ("other", {"pytorch": "ami-1", "cuda-12": "ami-2"})):
        made.run("UPDATE account SET config = %s WHERE name = %s", json.dumps({"images": images}), name)
    return made


def wish(image: str | None, **changes: Any) -> dict[str, Any]:
    return {"gpu": {"model": "A10G"}, "ttl_seconds": 7200, "image": image, **changes}


async def test_images_are_listed_by_name_with_their_accounts(alice: Caller, fleet: Fleet) -> None:
    fleet.run("UPDATE account SET config = %s WHERE name = 'main'", json.dumps({"images": {"pytorch": "ami-3"}}))
    answer = await alice.get("/v1/images")
    NamedImagePage.model_validate_json(answer.content, strict=True)
    other = {"provider": "aws", "account": "other"}
    assert answer.json()["items"] == [
        {"name": "cuda-12", "accounts": [other]},
        {"name": "pytorch", "accounts": [{"provider": "aws", "account": "main"}, other]},
    ]
    assert "ami-" not in answer.text


async def test_an_image_leaves_the_accounts_that_have_it(alice: Caller) -> None:
    plan = (await alice.post("/v1/leases/plan", json=wish("pytorch"))).json()
    assert {one["offering"]["account"] for one in plan["candidates"]} == {"other"}
    left_out = {(one["code"], one["offering"]["account"]) for one in plan["excluded"]}
    assert ("image", "main") in left_out
    made = await alice.post("/v1/leases", json=wish("pytorch"))
    assert made.status_code == 201, made.text
    assert made.json()["request"]["image"] == "pytorch"


@pytest.mark.parametrize("path", ["/v1/leases", "/v1/leases/plan"])
async def test_an_image_that_no_account_has_is_refused(alice: Caller, path: str) -> None:
    answer = await alice.post(path, json=wish("jax"))
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert answer.json()["errors"] == [
        {"pointer": "#/body/image", "detail": "names no image of any account: GET /v1/images lists them"}
    ]


async def test_an_image_without_a_fitting_offering_is_no_offering(alice: Caller) -> None:
    answer = await alice.post("/v1/leases", json=wish("pytorch", gpu={"model": "A100", "count": 4}))
    assert (answer.status_code, answer.json()["code"]) == (409, "no_offering")


@pytest.mark.parametrize("name", ["", "Py Torch", "-x", "a" * 41])
async def test_a_name_that_none_can_have_is_refused(alice: Caller, name: str) -> None:
    assert (await alice.post("/v1/leases", json=wish(name))).status_code == 422
