"""Column types used throughout, so that times, money and ids are declared one way."""

from sqlalchemy import Numeric, Text
from sqlalchemy.dialects.postgresql import JSONB, TIMESTAMP

Id = Text(collation="C")
"""TypeIDs are text, compared bytewise."""

Time = TIMESTAMP(timezone=True)
Json = JSONB(none_as_null=True)
Money = Numeric(14, 6)
"""USD. Never a float."""

Amount = Numeric(14, 6)
"""Quota amounts: whole numbers or USD an hour."""
