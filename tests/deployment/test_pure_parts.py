"""What of the trial needs no server: what it takes from the documentation, what it needs, how it shows what happened."""

import re

import pytest

from tests.deployment import documents
from tests.deployment.__main__ import PARTS
from tests.deployment.needs import PACKAGES, Needs
from tests.deployment.results import Outcome, Result, exit_code, read_results, table
from tests.harness.databases import ROOT

PLACES = {"postgres:5432": "10.0.0.9:1", "redis://redis:6379/0": "redis://10.0.0.9:2/0"}
VARIABLES = {name: f"secret of {name}" for name in ("OWNER_PASSWORD", "API_PASSWORD", "WORKER_PASSWORD")}


def result(outcome: Outcome, detail: str = "") -> Result:
    return Result(part="database", what="a check", outcome=outcome, detail=detail, seconds=1.23, figures={"n": 1})


@pytest.mark.parametrize(
    ("page", "language", "words"),
    [
        ("running.md", "ini", "pool_mode = session"),
        ("running.md", "ini", "gpulease = host=db port=5432"),
        ("howto/deploy.md", "", "bind :443 ssl crt /etc/haproxy/gpulease.pem"),
        ("howto/deploy.md", "", "server b 10.0.0.2:8000"),
        ("howto/backup.md", "sh", "pg_dump"),
        ("howto/backup.md", "sh", "pg_restore"),
    ],
)
def test_each_configuration_that_is_tried_stands_on_its_page(page: str, language: str, words: str) -> None:
    assert words in documents.block(page, language, words)


def test_a_block_that_is_not_there_is_an_error() -> None:
    with pytest.raises(LookupError, match="0 blocks of ini"):
        documents.block("running.md", "ini", "pool_mode = transaction")


@pytest.mark.parametrize("service", ["migrate", "api", "worker", "inventory"])
def test_the_compose_file_leaves_nothing_open(service: str) -> None:
    environment = documents.service_environment(service, VARIABLES, PLACES)
    assert "10.0.0.9:1" in environment["GPULEASE_DATABASE_URL"]
    assert environment["GPULEASE_DATABASE_PASSWORD"].startswith("secret of ")
    assert not [value for value in environment.values() if "$" in value or "postgres:5432" in value]


def test_what_is_missing_is_named_with_its_package() -> None:
    needs = Needs(("initdb", "pgbouncer"), namespaces=True)
    missing = needs.missing(uid=0, find=lambda _name: None, may_unshare=lambda: False)
    assert missing == [
        "Debian's packages are missing: apt-get install pgbouncer postgresql-15",
        "this machine permits no network namespaces",
    ]
    assert needs.missing(uid=1000, find=lambda _name: "/there", may_unshare=lambda: True) == [
        "it needs root, which starts each server as a user of its own"
    ]
    assert needs.missing(uid=0, find=lambda _name: "/there", may_unshare=lambda: True) == []


def test_every_package_that_a_part_needs_stands_where_people_look() -> None:
    needed = {PACKAGES[program] for part in PARTS.values() for program in part.needs.programs}
    page = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    install = re.search(r"apt-get install ([\w -]+)", page)
    assert install is not None
    assert needed == set(install[1].split())


def test_the_table_says_why_something_was_not_tried() -> None:
    shown = table([result(Outcome.OK, "fine"), result(Outcome.NOT_TRIED, "there is no root")])
    assert "not tried  database  a check: because there is no root" in shown
    assert shown.endswith("1 ok, 1 not tried; 2 s")


def test_a_long_detail_is_cut_in_the_table_alone() -> None:
    long = result(Outcome.FAILED, "x" * 5000)
    assert len(table([long])) < 1000
    assert len(str(long.as_json()["detail"])) == 5000


def test_evidence_can_be_read_again() -> None:
    made = [result(Outcome.OK), result(Outcome.NOT_TRIED, "why")]
    assert [one.outcome for one in read_results(one.as_json() for one in made)] == [Outcome.OK, Outcome.NOT_TRIED]


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        ([Outcome.OK, Outcome.NOT_TRIED], 0),
        ([Outcome.OK, Outcome.FAILED], 1),
        ([Outcome.NOT_TRIED], 1),
        ([], 1),
    ],
)
def test_only_what_was_tried_and_went_well_is_a_success(outcomes: list[Outcome], code: int) -> None:
    assert exit_code([result(outcome) for outcome in outcomes]) == code
