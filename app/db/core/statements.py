"""Types of statements with any columns."""

from typing import Any

from sqlalchemy import Select
from sqlalchemy.sql.dml import ReturningInsert

AnySelect = Select[*tuple[Any, ...]]
AnyInsert = ReturningInsert[*tuple[Any, ...]]
