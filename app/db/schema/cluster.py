"""Which PostgreSQL cluster, timeline and database a statement runs on, and whether the installation knows them.

A restore into another cluster changes the system identifier. A dump that is restored, also into the same cluster, has other numbers
(oids) of its database and tables. A promotion or a point-in-time recovery changes the timeline. The
timeline is that of the current WAL position: it changes in the moment of the promotion. `pg_control_checkpoint()` shows the old
timeline until the next checkpoint has completed, several minutes later. Every role may execute these functions by default.
"""

from typing import Any

from sqlalchemy import Boolean, ColumnElement, Executable, Integer, ScalarSelect, Text, literal_column, select, text

from app.db.core.prepared import Bound
from app.db.schema.tables import installation

_IDENTIFIER = "(SELECT system_identifier::text FROM pg_control_system())"
_TIMELINE = """(CASE WHEN pg_is_in_recovery() THEN NULL
    ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int END)"""

_DATABASE = """((SELECT oid::text FROM pg_database WHERE datname = current_database()) || '/' ||
    'installation'::regclass::oid::text)"""

IDENTIFIER: ColumnElement[str] = literal_column(_IDENTIFIER, Text)
TIMELINE: ColumnElement[int] = literal_column(_TIMELINE, Integer)
DATABASE: ColumnElement[str] = literal_column(_DATABASE, Text)
"""Of the running server. The timeline is null on a standby, whose WAL position belongs to its primary."""

IS_KNOWN_SQL = f"""(NOT pg_is_in_recovery() AND (installation.system_identifier IS NULL OR coalesce(
    (installation.system_identifier, installation.timeline) = ({_IDENTIFIER}, {_TIMELINE}), FALSE))
    AND coalesce(installation.database_identity = {_DATABASE}, TRUE))"""
IS_KNOWN: ColumnElement[bool] = literal_column(IS_KNOWN_SQL, Boolean)
"""Guard on `installation`: the running server is the stored cluster on the stored timeline with the stored database, as far as stored."""


def is_known() -> ScalarSelect[Any]:
    """`IS_KNOWN` as a column of another statement, so that no statement of its own is needed."""
    return select(IS_KNOWN).select_from(installation).scalar_subquery()


_CLUSTER = text(
    f"""
    SELECT {IS_KNOWN_SQL} AS is_known, pg_is_in_recovery() AS is_standby,
           system_identifier IS NOT NULL AND database_identity IS NOT NULL AS stored,
           coalesce(database_identity = {_DATABASE}, TRUE) AS is_same_database
    FROM installation
    """
)
_REMEMBER = text(
    f"""
    UPDATE installation
    SET system_identifier = {_IDENTIFIER}, timeline = {_TIMELINE}, database_identity = {_DATABASE}
    WHERE (system_identifier IS NULL OR database_identity IS NULL) AND {IS_KNOWN_SQL}
    """
)


def compare() -> Bound[Executable]:
    """One row (is_known, is_standby: the server only replays another one, stored: whether all is stored, is_same_database)."""
    return Bound(_CLUSTER, {})


def remember() -> Bound[Executable]:
    """Stores what is not stored yet of the running cluster."""
    return Bound(_REMEMBER, {})
