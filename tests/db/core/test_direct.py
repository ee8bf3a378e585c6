"""Statements that psycopg executes: they answer, and fail, as SQLAlchemy's do."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import (
    ARRAY,
    Boolean,
    Column,
    Integer,
    Interval,
    MetaData,
    Table,
    Text,
    Uuid,
    bindparam,
    insert,
    literal,
    select,
    text,
)
from sqlalchemy.exc import IntegrityError, NoResultFound

from app.db.core.direct import DirectConnection
from app.db.core.prepared import Bound
from app.db.core.sql import AnySelect, Json, Money, Time
from app.db.schema.tables import tenant
from tests.db.store import Store
from workers.runtime.database import WorkerDatabase

VALUES: dict[str, tuple[Any, Any]] = {
    "words": (Text(), "a % of it"),
    "number": (Integer(), 7),
    "money": (Money, Decimal("12.340000")),
    "structure": (Json, {"a": [1, None, "b"]}),
    "time": (Time, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
    "pause": (Interval(), timedelta(seconds=90)),
    "identity": (Uuid(), UUID(int=5)),
    "names": (ARRAY(Text), ["x", "y"]),
    "flag": (Boolean(), True),
    "nothing": (Text(), None),
}
SHOWN: AnySelect = select(*(bindparam(name, type_=kind).label(f"shown_{name}") for name, (kind, _) in VALUES.items()))
NUMBERS = text("SELECT n FROM generate_series(1, :most) AS n")
NAMES = select(tenant.c.name).where(tenant.c.status.in_(["active", "suspended"]), tenant.c.id == bindparam("wanted"))


@pytest.fixture
def database(store: Store) -> WorkerDatabase:
    return store.database


def given(**changes: Any) -> dict[str, Any]:
    return {name: value for name, (_, value) in VALUES.items()} | changes


def test_values_come_back_with_their_types(database: WorkerDatabase) -> None:
    row = database.first(Bound(SHOWN, given()))
    assert row is not None
    assert {str(name).removeprefix("shown_"): value for name, value in row._mapping.items()} == given()
    assert (row.shown_number, row[0]) == (7, "a % of it")
    with database.begin() as connection:
        assert connection.execute(SHOWN.params(given())).one() == connection.execute(SHOWN, given()).one()


def test_the_next_execution_has_its_own_values(database: WorkerDatabase) -> None:
    shown = [database.all(Bound(SHOWN, given(words=words)))[0].shown_words for words in ("one", None, "two")]
    assert shown == ["one", None, "two"]


def test_a_result_is_read_like_any_other(database: WorkerDatabase) -> None:
    with database.begin() as connection:

        def numbers(most: int) -> Any:
            return connection.execute(NUMBERS, {"most": most})

        assert isinstance(connection, DirectConnection)
        assert [row.n for row in numbers(3)] == [1, 2, 3]
        assert list(numbers(2).scalars()) == [1, 2]
        assert numbers(1).scalar_one() == 1
        assert (numbers(0).first(), numbers(3).rowcount) == (None, 3)
        with pytest.raises(NoResultFound):
            numbers(0).one()


def test_a_list_that_belongs_to_the_statement_is_written_into_it(database: WorkerDatabase) -> None:
    assert database.all(Bound(NAMES, {"wanted": "nobody"})) == []


def test_a_list_of_another_length_would_be_another_statement(database: WorkerDatabase) -> None:
    some = select(literal(1)).where(tenant.c.id.in_(bindparam("ids", expanding=True)))
    with pytest.raises(TypeError, match="length of a list"):
        database.all(Bound(some, {"ids": ["a"]}))


def test_a_default_of_python_would_be_left_out(database: WorkerDatabase) -> None:
    table = Table("made", MetaData(), Column("id", Integer), Column("name", Text, default=lambda: "new"))
    with pytest.raises(TypeError, match="default"):
        database.run(Bound(insert(table), {"id": 1}))


def test_a_refused_statement_fails_as_any_other_and_undoes_its_block(database: WorkerDatabase) -> None:
    add = insert(tenant).values(
        id=bindparam("new_id"), name=bindparam("new_name"), max_ttl_seconds=3600, max_total_seconds=7200
    )
    twice = {"new_id": "tenant_1", "new_name": "one"}

    def add_it_twice() -> None:
        with database.begin() as connection:
            assert connection.execute(add, twice).rowcount == 1
            connection.execute(add, twice)

    with pytest.raises(IntegrityError):
        add_it_twice()
    count = text("SELECT count(*) FROM tenant WHERE id = :id")
    assert database.all(Bound(count, {"id": "tenant_1"})) == [(0,)]
    assert database.run(Bound(add, twice)) == 1
    assert database.all(Bound(count, {"id": "tenant_1"})) == [(1,)]
