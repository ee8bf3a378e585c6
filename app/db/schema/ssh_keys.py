"""The table of stored SSH keys, with which tenants log in to their VMs."""

from sqlalchemy import Boolean, Column, ForeignKey, Index, Table, Text, UniqueConstraint, text

from app.db.core.sql import Id, Time
from app.db.schema.metadata import metadata

ssh_key = Table(
    "ssh_key",
    metadata,
    Column("id", Id, primary_key=True),
    Column("tenant_id", Id, ForeignKey("tenant.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("public_key", Text, nullable=False, comment="one line of an authorized_keys file"),
    Column("fingerprint", Text, nullable=False, comment="SHA-256, as OpenSSH writes it"),
    Column(
        "is_default",
        Boolean,
        nullable=False,
        server_default=text("false"),
        comment="a lease of its owner gets it if the request names no key",
    ),
    Column("key_id", Id, nullable=False, comment="the owner: the API key that stored it"),
    Column("created_at", Time, nullable=False, server_default=text("now()")),
    UniqueConstraint("tenant_id", "name"),
    Index("ix_ssh_key_tenant_id_id", "tenant_id", "id"),
)
