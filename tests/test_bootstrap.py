"""Starting the API."""

import time

import psycopg
import pytest

from app import prerequisites
from app.domain.schema import SchemaRevisions
from app.local.ports import free_port
from app.prerequisites import check_clock, check_database, ensure_operator_key, schema_revisions
from app.settings import StartupError


def test_a_database_that_is_ready_is_accepted(database_url: str) -> None:
    check_database(database_url)


def test_an_unreachable_database_stops_the_start_with_one_line() -> None:
    with pytest.raises(StartupError, match="cannot use the database") as refused:
        check_database(f"postgresql://gpulease:hunter2@127.0.0.1:{free_port()}/gpulease")
    assert "\n" not in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_an_older_schema_stops_the_start_and_says_what_to_run(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = schema_revisions()
    monkeypatch.setattr(prerequisites, "schema_revisions", lambda: SchemaRevisions("later", ours.known | {"later"}))
    with pytest.raises(StartupError, match="run gpulease-server migrate"):
        check_database(database_url)


def test_a_newer_schema_is_served_so_that_a_roll_out_migrates_first(database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("UPDATE alembic_version SET version_num = 'newer'")
        try:
            check_database(database_url)
        finally:
            connection.execute("UPDATE alembic_version SET version_num = %s", [schema_revisions().head])


def test_a_valid_operator_key_is_kept_and_any_other_replaced(database_url: str) -> None:
    first = ensure_operator_key(database_url, None)
    assert ensure_operator_key(database_url, first) == first
    for other in ("nonsense", first[:-1] + "~"):
        assert ensure_operator_key(database_url, other) not in {first, other}


def test_a_host_with_a_wrong_clock_is_told_at_its_start(database_url: str) -> None:
    assert check_clock(database_url) is None
    for wrong, where in ((60.0, "ahead of"), (-1200.0, "behind")):
        told = check_clock(database_url, clock=lambda: time.time() + wrong)  # noqa: B023 - called at once
        assert told == f"the host's clock is {abs(wrong):.0f} s {where} the database's"
