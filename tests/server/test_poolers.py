"""Behind a connection pooler: sessions work, anything that mixes them is refused at the start."""

from collections.abc import Iterator

import pytest
from sqlalchemy import text

from app.db.core.connections import WORKER_SESSION, DatabaseUnusable, check_connections
from app.db.core.engine import ApiDatabase
from tests.harness.pooler import Mode, Pooler, pooled
from tests.server.test_main import DATABASE, server
from workers.runtime.database import WorkerDatabase

IGNORED = frozenset({"role", "options", "statement_timeout", "idle_in_transaction_session_timeout", "jit"})
STATE = text(
    "SELECT current_user, current_setting('statement_timeout'), "
    "current_setting('idle_in_transaction_session_timeout'), current_setting('timezone')"
)
PROCESSES = ("api", "worker", "inventory")


@pytest.fixture(params=[frozenset(), IGNORED], ids=["as it comes", "start-up parameters ignored"])
def session_pooler(request: pytest.FixtureRequest, database_url: str) -> Iterator[str]:
    with pooled(Pooler(database_url, Mode.SESSION, request.param)) as url:
        yield url


@pytest.fixture
def transaction_pooler(database_url: str) -> Iterator[str]:
    with pooled(Pooler(database_url, Mode.TRANSACTION, IGNORED)) as url:
        yield url


async def test_the_api_behind_a_pool_of_sessions_has_its_role_and_time_outs(session_pooler: str) -> None:
    database = ApiDatabase(session_pooler, pool_size=2)
    async with database.transaction(None) as connection:
        assert (await connection.execute(STATE)).one() == ("gpulease_api", "15s", "30s", "UTC")
    await database.close()


def test_a_worker_behind_a_pool_of_sessions_has_its_role_and_time_outs(session_pooler: str) -> None:
    database = WorkerDatabase(session_pooler, pool_size=2)
    assert database.all(STATE) == [("gpulease_worker", "1min", "30s", "UTC")]
    database.close()


@pytest.mark.parametrize("process", PROCESSES)
def test_no_process_starts_behind_a_pool_of_transactions(process: str, transaction_pooler: str) -> None:
    code, said = server(process, **{DATABASE: transaction_pooler})
    assert code == 2, said
    assert "session" in said
    assert "pool_mode" in said
    assert len(said.strip().splitlines()) == 1


@pytest.mark.parametrize("idle", [0, 1, 2, 5])
@pytest.mark.parametrize("round_robin", [False, True])
def test_mixed_sessions_are_noticed_whichever_connection_the_pooler_lends(
    database_url: str, idle: int, round_robin: bool
) -> None:
    pooler = Pooler(database_url, Mode.TRANSACTION, round_robin=round_robin)
    pooler.keep_idle(idle)
    with pooled(pooler) as url, pytest.raises(DatabaseUnusable, match="mixes the sessions"):
        check_connections(url, WORKER_SESSION)
