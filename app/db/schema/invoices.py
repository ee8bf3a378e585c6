"""What providers charged: the lines of their FOCUS files that operators imported."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Date,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    Numeric,
    Table,
    Text,
    text,
)

from app.db.core.sql import Id, Json, Time
from app.db.schema.metadata import metadata

invoice_import = Table(
    "invoice_import",
    metadata,
    Column("id", Id, primary_key=True),
    Column("file_name", Text, nullable=False),
    Column("file_hash", LargeBinary, nullable=False, unique=True, comment="SHA-256: a file is imported once"),
    Column("provider", Text, nullable=False),
    Column("month", Date, nullable=False, comment="its first day"),
    Column(
        "billing_accounts",
        Json,
        nullable=False,
        server_default=text("'[]'"),
        comment="whose lines for the month this import holds",
    ),
    Column("lines", Integer, nullable=False, comment="of the file; only those that matter are stored"),
    Column("first_day", Date, comment="of its charges, UTC"),
    Column("last_day", Date, comment="of its charges, UTC; estimates of later days are not compared"),
    Column(
        "unlisted_resources",
        Integer,
        nullable=False,
        server_default="0",
        comment="with the installation's tag and without a lease, when it was imported",
    ),
    Column("unlisted_cost", Numeric, nullable=False, server_default="0", comment="USD: what they cost"),
    Column("imported_at", Time, nullable=False, server_default=text("now()")),
    Column("replaced_at", Time, comment="when a newer file took over its last billing account"),
    Index("ix_invoice_import_month", "month"),
)

invoice_line = Table(
    "invoice_line",
    metadata,
    Column("row_id", BigInteger, Identity(always=True), primary_key=True),
    Column("import_id", Id, ForeignKey("invoice_import.id", ondelete="CASCADE"), nullable=False),
    Column("day", Date, nullable=False, comment="UTC"),
    Column("provider", Text, nullable=False),
    Column("billing_account", Text),
    Column("resource_id", Text, nullable=False, comment="in the form of attempt.instance_id where it is a VM"),
    Column("charge_category", Text, nullable=False),
    Column("service", Text),
    Column("cost", Numeric, nullable=False, comment="USD: EffectiveCost"),
    Column("lease_id", Id, comment="from the tags; on the disk of a volume, the volume's id"),
    Column("installation", Text, comment="from the tags"),
    Column("is_vm", Boolean, nullable=False),
    Index("ix_invoice_line_day", "day", "resource_id"),
    Index("ix_invoice_line_import_id", "import_id"),
)
