"""One answer as table, JSON or CSV."""

import csv
import io
import json

import pytest
from rich.text import Text

from app.cli.render import output
from app.cli.render.sheet import cell
from tests.cli.conftest import Cli
from tests.cli.fake_api import ACTIVE, BOOTING, PLACE, PROVISIONING, RELEASED, FakeApi, Json, a_lease

LIVE: Json = {**PROVISIONING, **BOOTING, **ACTIVE, "expires_at": "2026-06-01T14:00:00Z"}
LIVE["ends_at"] = LIVE["expires_at"]


def _rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_csv_has_the_tables_columns_and_the_apis_values(api: FakeApi, cli: Cli) -> None:
    api.add(a_lease(1, **LIVE))
    result = cli("lease", "list", "--output", "csv")
    assert result.exit_code == 0, result.output
    assert _rows(result.stdout) == [
        {
            "ID": "lease_00000000000000000000000001",
            "NAME": "train-1",
            "STATE": "active",
            "GPUS": "8 x A100 40 GiB",
            "LOCATION": "aws us-east-1a",
            "TYPE": "p4d.24xlarge",
            "MARKET": "spot",
            "USD/H": "21.96",
            "COST USD": "1.25",
            "EXPIRES": "2026-06-01T14:00:00Z",
            "CREATED": "2026-06-01T10:00:00Z",
            "GPU %": "",
        }
    ]
    table = cli("lease", "list").stdout
    assert table.splitlines()[0].split() == " ".join(_rows(result.stdout)[0]).split()
    assert "ago" in table


def test_csv_lines_end_and_quote_as_the_standard_says(api: FakeApi, cli: Cli) -> None:
    api.add(a_lease(1, name='a, "b"\nc'))
    text = cli("lease", "list", "--output", "csv").stdout_bytes.decode()
    assert text.count("\r\n") == 2
    assert '"a, ""b""\nc"' in text
    assert _rows(text)[0]["NAME"] == 'a, "b"\nc'


def test_one_lease_is_one_row_of_the_list(api: FakeApi, cli: Cli) -> None:
    api.add(a_lease(1, **LIVE))
    assert (
        cli("lease", "show", "lease_00000000000000000000000001", "--output", "csv").stdout
        == cli("lease", "list", "--output", "csv").stdout
    )


def test_any_other_object_is_one_row_with_a_column_for_each_field(api: FakeApi, cli: Cli) -> None:
    api.documents["GET", "/v1/me"] = {"role": "member", "tenant_id": None, "tenant": {"name": "lab"}}
    (row,) = _rows(cli("me", "--output", "csv").stdout)
    assert row == {"role": "member", "tenant_id": "", "tenant.name": "lab"}


def test_a_plan_is_a_row_for_each_candidate(api: FakeApi, cli: Cli) -> None:
    api.documents["POST", "/v1/leases/plan"] = {
        "candidates": [
            {"rank": 1, "offering": {**PLACE, "price_per_hour": "21.96"}, "price_for_term": "87.84"},
            {
                "rank": 2,
                "offering": {**PLACE, "zone": "us-east-1b", "price_per_hour": "21.96"},
                "price_for_term": "87.84",
            },
        ]
    }
    rows = _rows(cli("lease", "plan", "--gpu", "A100:8", "--ttl", "4h", "--output", "csv").stdout)
    assert [(row["#"], row["USD/H"]) for row in rows] == [("1", "21.96"), ("2", "21.96")]


def test_an_empty_list_is_its_header(api: FakeApi, cli: Cli) -> None:
    result = cli("lease", "list", "--output", "csv")
    assert result.stdout.splitlines() == [
        "ID,NAME,STATE,GPUS,LOCATION,TYPE,MARKET,USD/H,COST USD,EXPIRES,CREATED,GPU %"
    ]
    assert "no leases" in result.stderr
    api.documents["GET", "/v1/ops/orphans"] = {"items": [], "next_cursor": None}
    assert cli("ops", "orphans", "--output", "csv").stdout.startswith("ID,INSTANCE,TYPE,")


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1+cmd", "@SUM(A1)", "\t=1", "\r=1", "-", "-٣"])
def test_what_a_spreadsheet_would_run_is_made_text(text: str) -> None:
    assert cell(text).startswith("'")


@pytest.mark.parametrize(
    ("value", "text"),
    [("-12.50", "-12.50"), (-3, "-3"), (1.5, "1.5"), (None, ""), (True, "true"), ("a=b", "a=b"), (Text("x"), "x")],
)
def test_numbers_and_plain_text_stay_as_they_are(value: object, text: str) -> None:
    assert cell(value) == text


def test_a_formula_in_a_name_arrives_harmless(api: FakeApi, cli: Cli) -> None:
    api.add(a_lease(1, name='=HYPERLINK("http://x")'))
    (row,) = _rows(cli("lease", "list", "--output", "csv").stdout)
    assert row["NAME"] == '\'=HYPERLINK("http://x")'


@pytest.mark.parametrize(
    "arguments",
    [
        ["lease", "watch", "lease_00000000000000000000000001"],
        ["lease", "release", "lease_00000000000000000000000001", "--watch"],
        ["lease", "create", "--gpu", "T4", "--ttl", "1h", "--watch"],
    ],
)
def test_a_watch_has_no_table_and_says_so_before_anything_is_done(api: FakeApi, cli: Cli, arguments: list[str]) -> None:
    api.add(a_lease(1, **RELEASED))
    result = cli(*arguments, "--output", "csv")
    assert result.exit_code == 2
    assert "no table" in result.stderr
    assert not api.asked


def test_json_is_short_for_output_json_and_the_nearest_option_wins(api: FakeApi, cli: Cli) -> None:
    api.documents["GET", "/v1/me"] = {"role": "member"}
    for arguments in (
        ["me", "--json"],
        ["me", "--output", "json"],
        ["--output", "json", "me"],
        ["--output", "csv", "me", "--json"],
    ):
        assert json.loads(cli(*arguments).stdout) == {"role": "member"}
    assert cli("--json", "me", "--output", "csv").stdout.splitlines() == ["role", "member"]
    assert "member" in cli("--json", "me", "--output", "table").stdout


def test_two_forms_at_once_are_refused(api: FakeApi, cli: Cli) -> None:
    for arguments in (["me", "--json", "--output", "csv"], ["--json", "--output", "csv", "me"]):
        result = cli(*arguments)
        assert result.exit_code == 2
        assert "not both" in result.stderr
    assert not api.asked


@pytest.mark.parametrize(
    ("amount", "nearest", "ceiling"),
    [
        ("0.70683", "0.7068", "0.7069"),
        ("0.7068", "0.7068", "0.7068"),
        ("21.961", "21.96", "21.97"),
        ("0.001096", "0.001096", "0.001096"),
        ("-0.00011", "-0.00011", "-0.00011"),
        ("0.00", "0.00", "0.00"),
        (None, None, None),
    ],
)
def test_a_small_amount_keeps_its_digits_and_a_maximum_is_never_shown_lower(
    amount: str | None, nearest: str | None, ceiling: str | None
) -> None:
    assert (output.rounded(amount), output.rounded(amount, up=True)) == (nearest, ceiling)
