"""Messages to the operators of the installation."""

from sqlalchemy import Column, Index, Integer, Table, Text, UniqueConstraint, text

from app.db.core.sql import Id, Json, Time
from app.db.schema.metadata import metadata

_NOW = text("now()")

operator_message = Table(
    "operator_message",
    metadata,
    Column("id", Id, primary_key=True),
    Column("cause", Text, nullable=False, comment="what it reports, once: kind and id"),
    Column("kind", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("sent_to", Json, nullable=False, server_default=text("'[]'"), comment="receivers that accepted it"),
    Column("tries", Integer, nullable=False, server_default="0"),
    Column("next_try_at", Time, server_default=_NOW, comment="NULL: sent, or given up"),
    Column("sent_at", Time),
    Column("created_at", Time, nullable=False, server_default=_NOW),
    UniqueConstraint("cause"),
    Index("ix_operator_message_next_try_at", "next_try_at", postgresql_where=text("next_try_at IS NOT NULL")),
    comment="Messages to the operators, sent through Apprise",
)
