"""Warnings before the end, as each lease may set them."""

import pytest

from app.settings import StartupError, load_settings
from tests.api.conftest import Caller
from tests.api.fleet import Fleet

ASKED = {"gpu": {"model": "A10G"}, "ttl_seconds": 7200}


async def test_a_lease_has_the_warnings_that_it_is_given(alice: Caller, database_url: str) -> None:
    fleet = Fleet(database_url)
    fleet.catalogue()
    made = (await alice.post("/v1/leases", json={**ASKED, "expiry_warnings_seconds": [60, 600, 60]})).json()
    path = f"/v1/leases/{made['id']}"
    assert made["expiry_warnings_seconds"] == [600, 60]
    for given, shown in (([], []), (None, None), ([30], [30])):
        changed = await alice.patch(path, json={"expiry_warnings_seconds": given})
        assert changed.json()["expiry_warnings_seconds"] == shown, changed.text
    told = fleet.run("SELECT data -> 'expiry_warnings_seconds' AS seconds FROM event WHERE type = 'lease.updated'")
    assert [row["seconds"] for row in told] == [[], None, [30]]
    refused = await alice.patch(path, json={"expiry_warnings_seconds": [0]})
    assert refused.status_code == 422
    plain = (await alice.post("/v1/leases", json=ASKED)).json()
    assert plain["expiry_warnings_seconds"] is None


@pytest.mark.parametrize(
    ("variables", "warnings"),
    [
        ({}, (1800, 300)),
        ({"EXPIRY_WARNINGS_SECONDS": "300, 3600"}, (3600, 300)),
        ({"EXPIRY_WARNINGS_SECONDS": ""}, ()),
    ],
)
def test_the_setting_is_a_list_with_the_longest_warning_first(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], warnings: tuple[int, ...]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(f"GPULEASE_{name}", value)
    assert load_settings().expiry_warnings_seconds == warnings


def test_a_list_that_is_none_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPULEASE_EXPIRY_WARNINGS_SECONDS", "half an hour")
    with pytest.raises(StartupError, match=r"GPULEASE_EXPIRY_WARNINGS_SECONDS: 'half an hour' is not a number"):
        load_settings()
