"""The one MetaData, with names for constraints so that migrations can address them."""

from enum import StrEnum

from sqlalchemy import MetaData

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def one_of(column: str, values: type[StrEnum]) -> str:
    """The condition that a column holds one of an enumeration's values."""
    return f"{column} IN ({', '.join(repr(str(value)) for value in values)})"
