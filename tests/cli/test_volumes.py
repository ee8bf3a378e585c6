"""`gpulease volume`: creates, lists and deletes volumes, and `--volume` of a new lease."""

from typing import Any

from tests.cli.conftest import Cli
from tests.cli.fake_api import FakeApi, problem
from tests.cli.terminal import Terminal

VOLUME_ID = "vol_00000000000000000000000001"
VOLUME: dict[str, Any] = {
    "id": VOLUME_ID,
    "name": "data",
    "state": "available",
    "size_gib": 500,
    "lease_id": None,
    "last_lease_id": "lease_00000000000000000000000001",
    "last_used_at": "2026-11-01T12:00:00Z",
}
CREATE = (
    "volume",
    "create",
    "data",
    "--size",
    "500",
    "--account",
    "main",
    "--region",
    "us-east-1",
    "--zone",
    "us-east-1a",
)


def known(api: FakeApi, **changes: Any) -> None:
    volume = {**VOLUME, **changes}
    api.documents["GET", "/v1/volumes"] = {"items": [volume], "next_cursor": None}
    api.documents["GET", f"/v1/volumes/{VOLUME_ID}"] = volume
    api.documents["DELETE", f"/v1/volumes/{VOLUME_ID}"] = {**volume, "state": "deleting"}


def test_a_volume_is_created_and_awaited(api: FakeApi, cli: Cli) -> None:
    known(api)
    api.documents["POST", "/v1/volumes"] = {**VOLUME, "state": "creating"}
    result = cli(*CREATE, "--label", "team=vision", "--wait", "1m")
    assert result.exit_code == 0, result.stderr
    (asked,) = api.calls("POST", "/v1/volumes")
    assert asked.body == {
        "name": "data",
        "size_gib": 500,
        "account": "main",
        "region": "us-east-1",
        "zone": "us-east-1a",
        "labels": {"team": "vision"},
    }
    assert "available" in result.stdout


def test_a_wait_ends_with_the_reason_of_a_failed_volume(api: FakeApi, cli: Cli) -> None:
    reason = {"code": "provider_error", "message": "The zone has no such disks.", "origin": "provider"}
    known(api, state="failed", reason=reason)
    api.documents["POST", "/v1/volumes"] = {**VOLUME, "state": "creating"}
    result = cli(*CREATE, "--wait", "1m")
    assert result.exit_code == 1
    assert "failed: The zone has no such disks." in result.stderr


def test_a_list_has_live_volumes_unless_asked_for_ended_ones(api: FakeApi, cli: Cli) -> None:
    known(api)
    assert "data" in cli("volume", "list").stdout
    assert "data" in cli("volume", "list", "--ended").stdout
    live, every = api.calls("GET", "/v1/volumes")
    assert live.query["state"] == ["creating", "available", "deleting"]
    assert "state" not in every.query


def test_a_deletion_needs_an_answer_or_yes(api: FakeApi, cli: Cli) -> None:
    known(api)
    refused = cli("volume", "delete", "data")
    assert refused.exit_code == 2
    assert "--yes" in refused.stderr
    assert api.calls("DELETE", f"/v1/volumes/{VOLUME_ID}") == []
    for text, deletions in (("n", 0), ("y", 1)):
        with Terminal(cli, ["volume", "delete", "data"]) as terminal:
            terminal.type(f"{text}\n")
            _, errors = terminal.finish()
        assert "Delete the volume data of 500 GiB (last used " in errors
        assert len(api.calls("DELETE", f"/v1/volumes/{VOLUME_ID}")) == deletions
    assert cli("volume", "delete", VOLUME_ID, "--yes").exit_code == 0


def test_a_volume_in_use_says_which_lease_holds_it(api: FakeApi, cli: Cli) -> None:
    known(api)
    text = "The volume is in use: the lease lease_1 holds the volume."
    api.refusals["DELETE", f"/v1/volumes/{VOLUME_ID}"] = problem(409, "volume_in_use", text)
    result = cli("volume", "delete", VOLUME_ID, "--yes")
    assert result.exit_code == 1
    assert text in result.stderr


def test_a_lease_mounts_volumes_by_name_and_path(api: FakeApi, cli: Cli) -> None:
    options = ("--gpu", "A100", "--ttl", "4h", "--no-ssh-key", "--volume", "data:/data", "--volume", "my models:/srv/m")
    assert cli("lease", "create", *options).exit_code == 0
    (asked,) = api.calls("POST", "/v1/leases")
    assert asked.body is not None
    assert asked.body["volumes"] == [{"name": "data", "path": "/data"}, {"name": "my models", "path": "/srv/m"}]
    shown = cli("lease", "show", next(iter(api.leases)))
    assert "data:/data, my models:/srv/m" in shown.stdout, shown.stdout
    pointer = [{"pointer": "#/body/volumes/0/name", "detail": "is in use: the lease lease_1 holds the volume vol_1"}]
    api.refusals["POST", "/v1/leases"] = problem(409, "volume_in_use", "The volume is in use.", errors=pointer)
    refused = cli("lease", "create", *options)
    assert "--volume" in refused.stderr, refused.stderr
    for wrong in ("data", "data:data", ":/data"):
        refused = cli("lease", "create", *options[:5], "--volume", wrong)
        assert refused.exit_code == 2
        assert "NAME:PATH" in refused.stderr
