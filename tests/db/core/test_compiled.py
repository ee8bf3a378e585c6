"""Statements are compiled once."""

from typing import Any

from sqlalchemy import literal, select
from sqlalchemy.dialects.postgresql.psycopg import dialect

from app.db.core.compiled import CompiledCache
from app.db.core.sql import AnySelect


def test_engines_share_what_was_compiled() -> None:
    """SQLAlchemy's own look-up: it would miss if its keys no longer began with the dialect."""
    cache = CompiledCache(10)

    def compiled(statement: AnySelect) -> Any:
        engines_own: Any = dialect()
        return statement._compile_w_cache(engines_own, compiled_cache=cache, column_keys=[])[0]

    first = compiled(select(literal(1).label("a")))
    assert compiled(select(literal(2).label("a"))) is first
    assert compiled(select(literal(1).label("b"))) is not first
    assert len(cache) == 2
