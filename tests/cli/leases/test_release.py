"""`lease release` and `lease update`."""

import json

import pytest

from tests.cli.conftest import Cli
from tests.cli.fake_api import ALL_PARTS, PLACE, RELEASED, RELEASING, TENANT_ID, FakeApi, a_lease
from tests.cli.terminal import Terminal

BULK = ("POST", "/v1/leases/release")


@pytest.fixture(autouse=True)
def leases(api: FakeApi) -> None:
    for number, team in enumerate(("vision", "vision", "speech"), 1):
        api.add(a_lease(number, labels={"team": team}, placement=PLACE))
    api.add(a_lease(4, labels={"team": "vision"}, **RELEASED))
    api.add(a_lease(5, labels={"team": "vision"}, **RELEASING))


def test_several_names_are_released_in_one_request(api: FakeApi, cli: Cli) -> None:
    result = cli("lease", "release", "train-1", "lease_00000000000000000000000003", "train-1")
    assert result.exit_code == 0, result.output
    assert [asked.body for asked in api.calls(*BULK)] == [
        {"ids": ["lease_00000000000000000000000001", "lease_00000000000000000000000003"]}
    ]
    assert "2 leases are being released" in result.stderr


def test_one_release_is_one_line_and_the_lease_with_verbose(api: FakeApi, cli: Cli) -> None:
    lease = "lease_00000000000000000000000001"
    api.leases[lease]["cost"] = {"accrued": "1.25", **ALL_PARTS}
    result = cli("release", "train-1")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == f"train-1 ({lease}) is being released; it has cost 1.25 USD\n"
    first, *rest = cli("lease", "release", "train-1", "--verbose").stdout.splitlines()
    assert first.startswith("train-1 (")
    assert any("us-east-1" in line for line in rest)
    assert json.loads(cli("lease", "release", lease, "--json").stdout)["id"] == lease


def test_leases_that_end_meanwhile_are_not_counted(api: FakeApi, cli: Cli) -> None:
    item = {
        "id": "lease_00000000000000000000000001",
        "tenant_id": TENANT_ID,
        "name": "train-1",
        "state": "releasing",
        "released": True,
    }
    items = [
        item,
        {**item, "id": "lease_00000000000000000000000002", "name": "train-2", "state": "released", "released": False},
    ]
    api.documents[BULK] = {"dry_run": False, "released": 1, "items": items, "not_found": [], "more": False}
    result = cli("lease", "release", "train-1", "train-2", "--output", "csv")
    assert result.stderr == "1 lease is being released\n1 ended meanwhile\n"
    assert result.stdout.splitlines() == [
        "ID,NAME,STATE,RELEASED",
        "lease_00000000000000000000000001,train-1,releasing,true",
        "lease_00000000000000000000000002,train-2,released,false",
    ]


def test_one_unknown_name_releases_nothing(api: FakeApi, cli: Cli) -> None:
    assert cli("lease", "release", "train-1", "ghost").exit_code == 1
    assert not [asked for asked in api.asked if asked.method != "GET"]


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        (["--label", "team=vision"], ["lease_00000000000000000000000001", "lease_00000000000000000000000002"]),
        (
            ["--all"],
            [
                "lease_00000000000000000000000001",
                "lease_00000000000000000000000002",
                "lease_00000000000000000000000003",
            ],
        ),
    ],
)
def test_a_label_or_all_takes_the_live_leases(api: FakeApi, cli: Cli, options: list[str], ids: list[str]) -> None:
    assert cli("lease", "release", *options, "--yes").exit_code == 0
    assert [asked.body for asked in api.calls(*BULK)] == [{"ids": ids}]


@pytest.mark.parametrize("options", [["--all"], ["--label", "team=vision"], [], ["train-1", "--all"]])
def test_without_a_terminal_many_need_yes_and_one_selection_is_required(
    api: FakeApi, cli: Cli, options: list[str]
) -> None:
    assert cli("lease", "release", *options).exit_code == 2
    assert not api.asked


def test_a_dry_run_lists_and_releases_nothing(api: FakeApi, cli: Cli) -> None:
    shown = cli("lease", "release", "--label", "team=vision", "--dry-run")
    assert shown.exit_code == 0
    assert "train-2" in shown.stdout
    assert "train-3" not in shown.stdout
    assert not api.calls(*BULK)


@pytest.mark.parametrize(("answer", "code", "calls"), [("n", 1, 0), ("y", 0, 1)])
def test_a_terminal_asks_with_the_number_and_the_price(
    api: FakeApi, cli: Cli, answer: str, code: int, calls: int
) -> None:
    with Terminal(cli, ["lease", "release", "--label", "team=vision"]) as terminal:
        terminal.wait_for("train-2")
        terminal.type(f"{answer}\n")
        exit_code, errors = terminal.finish()
    assert exit_code == code
    assert "Release 2 leases (43.92 USD/h)? [y/N]" in errors
    assert len(api.calls(*BULK)) == calls


def test_a_thousand_leases_are_released_in_batches(api: FakeApi, cli: Cli) -> None:
    for number in range(100, 330):
        api.add(a_lease(number))
    result = cli("lease", "release", "--all", "--yes", "--json")
    assert [len((asked.body or {})["ids"]) for asked in api.calls(*BULK)] == [100, 100, 33]
    assert len(json.loads(result.stdout)["items"]) == 233


def test_nothing_to_release_is_no_error(cli: Cli) -> None:
    result = cli("lease", "release", "--label", "team=nobody", "--yes")
    assert (result.exit_code, "no leases to release" in result.stderr) == (0, True)


def test_update_changes_the_name_and_keeps_other_labels(api: FakeApi, cli: Cli) -> None:
    api.leases["lease_00000000000000000000000001"]["labels"] = {"team": "vision", "old": "x"}
    changes = ["--name", "new", "--label", "cost=42", "--remove-label", "old"]
    assert cli("lease", "update", "train-1", *changes).exit_code == 0
    (asked,) = api.calls("PATCH", "/v1/leases/lease_00000000000000000000000001")
    assert asked.body == {"name": "new", "labels": {"team": "vision", "cost": "42"}}
    assert cli("lease", "update", "lease_00000000000000000000000002").exit_code == 2


def test_a_shortened_id_is_accepted(api: FakeApi, cli: Cli) -> None:
    lease_id = "lease_01m84jncx1es4vd0pkyemx4c86"
    api.add({**a_lease(9), "id": lease_id})
    assert json.loads(cli("lease", "show", "lease_…yemx4c86", "--json").stdout)["id"] == lease_id
