"""A start-up script and SSH keys that some cloud cannot launch are refused when they are asked for."""

from typing import Any

import pytest

from app.domain.boot_sizes import MOST_ALONE, MOST_IN_GROUP
from tests.api.conftest import Caller
from tests.api.fleet import Fleet
from tests.workers.providers.test_boot_sizes import KEYS, TEXTS, longest

PRINTABLE = TEXTS["printable"]
TOO_MANY = list(KEYS["with long comments"])
LONG = longest(PRINTABLE, (), group=False)
"""Alone it is as long as a script may be."""
REQUEST: dict[str, Any] = {"gpu": {"model": "A10G"}, "ttl_seconds": 3600, "startup_script": LONG}


@pytest.fixture(autouse=True)
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    return made


def refusal(answer: Any) -> tuple[str, str]:
    """The field and the sentence."""
    assert answer.status_code == 422, answer.text
    (error,) = answer.json()["errors"]
    return error["pointer"], error["detail"]


@pytest.mark.parametrize("path", ["/v1/leases", "/v1/leases/plan", "/v1/quotes"])
async def test_a_script_and_keys_that_are_too_long_together_are_refused(alice: Caller, fleet: Fleet, path: str) -> None:
    assert (await alice.post(path, json=REQUEST)).is_success
    before = fleet.run("SELECT count(*) FROM lease")
    pointer, detail = refusal(await alice.post(path, json={**REQUEST, "ssh_public_keys": TOO_MANY}))
    assert pointer == "#/body/startup_script"
    assert f"{MOST_ALONE} are the most: let the script fetch a part of itself" in detail
    assert fleet.run("SELECT count(*) FROM lease") == before


async def test_stored_keys_count_as_those_of_the_request(alice: Caller) -> None:
    for n, key in enumerate(TOO_MANY):
        stored = await alice.post("/v1/ssh-keys", json={"name": f"key-{n}", "public_key": key, "default": True})
        assert stored.status_code == 201, stored.text
    assert refusal(await alice.post("/v1/leases", json=REQUEST))[0] == "#/body/startup_script"
    without = await alice.post("/v1/leases", json={**REQUEST, "ssh_keys": []})
    assert without.status_code == 201, without.text


async def test_a_group_has_less_room_and_the_refusal_names_its_lease(alice: Caller, fleet: Fleet) -> None:
    body = {"name": "train", "size": 1, "lease": REQUEST}
    pointer, detail = refusal(await alice.post("/v1/groups", json=body))
    assert pointer == "#/body/lease/startup_script"
    assert f"{MOST_IN_GROUP} are the most in a group" in detail
    assert fleet.run("SELECT * FROM lease_group") == []
    fitting = {**REQUEST, "startup_script": longest(PRINTABLE, (), group=True)}
    made = await alice.post("/v1/groups", json={**body, "lease": fitting})
    assert made.status_code == 201, made.text
