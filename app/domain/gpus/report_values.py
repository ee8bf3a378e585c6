"""Readers of single values in a report of an agent. They raise ValueError naming the field, and accept nothing else."""

import math
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TypeVar

_Choice = TypeVar("_Choice", bound=StrEnum)
_LATEST = 4_102_444_800.0
"""2100: a later time is no time."""
_MOST_DIGITS = 10**30
"""More than any integer type of a driver holds."""


def check_keys(value: Mapping[str, Any], known: Collection[str], name: str) -> None:
    """Limits the members that are ignored: a later agent may send a few more, and nobody sends hundreds."""
    unknown = [key for key in value if key not in known]
    if len(unknown) > _MOST_UNKNOWN:
        raise ValueError(f"{name} has too many unknown members, such as {unknown[0][:40]!r}")


_MOST_UNKNOWN = 16


class Reader:
    """One JSON object. `name` is its place in the report, for messages. An absent member is null."""

    __slots__ = ("_name", "_value", "impossible")

    def __init__(self, value: Any, name: str) -> None:
        if not isinstance(value, dict):
            raise ValueError(f"{name} must be an object")  # noqa: TRY004 - every problem of a report is one
        self._value: Mapping[str, Any] = value
        self._name = name
        self.impossible: tuple[str, ...] = ()
        """Members that were out of their range, of those that a driver measures."""

    def measured(self, key: str, least: float, most: float) -> float | None:
        """A finite number that a driver reports. Out of its range it is unknown, since an agent cannot help it."""
        value = self.number(key, -_MOST_DIGITS, _MOST_DIGITS)
        return value if value is None or least <= value <= most else self._drop(key)

    def counted(self, key: str, least: int, most: int) -> int | None:
        """A whole number that a driver reports. Out of its range it is unknown, since an agent cannot help it."""
        value = self.integer(key, -_MOST_DIGITS, _MOST_DIGITS)
        return value if value is None or least <= value <= most else self._drop(key)

    def integer(self, key: str, least: int, most: int, *, required: bool = False) -> int | None:
        """A whole number in a range."""
        value = self._get(key, required=required)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self._error(key, f"must be a whole number from {least} to {most}")
        return value

    def number(self, key: str, least: float, most: float, *, required: bool = False) -> float | None:
        """A finite number in a range."""
        value = self._get(key, required=required)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._error(key, "must be a number")
        if isinstance(value, float) and not math.isfinite(value):
            raise self._error(key, "must be finite")
        if not least <= value <= most:
            raise self._error(key, f"must be from {least:g} to {most:g}")
        return float(value)

    def time(self, key: str, *, required: bool = False) -> datetime | None:
        """Seconds since 1970, as a time in UTC."""
        seconds = self.number(key, 0.0, _LATEST, required=required)
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)

    def text(self, key: str, longest: int, *, required: bool = False) -> str | None:
        """Printable text of limited length. The database stores no NUL, and a log line has no control characters."""
        value = self._get(key, required=required)
        if value is not None and (not isinstance(value, str) or len(value) > longest or not value.isprintable()):
            raise self._error(key, f"must be printable text of at most {longest} characters")
        return value

    def integers(self, key: str, most: int, least: int, largest: int) -> tuple[int, ...]:
        """A list of at most `most` whole numbers in a range."""
        entries = self._list(key, most)
        for i, entry in enumerate(entries):
            if isinstance(entry, bool) or not isinstance(entry, int) or not least <= entry <= largest:
                raise self._error(f"{key}[{i}]", f"must be a whole number from {least} to {largest}")
        return tuple(entries)

    def flag(self, key: str) -> bool | None:
        """True or false."""
        value = self._get(key)
        if value is not None and not isinstance(value, bool):
            raise self._error(key, "must be true or false")
        return value

    def choice(self, key: str, values: type[_Choice]) -> _Choice | None:
        """One of an enumeration's values."""
        value = self._get(key)
        if value is None:
            return None
        if not isinstance(value, str) or value not in set(values):
            raise self._error(key, f"must be one of {', '.join(values)}")
        return values(value)

    def objects(self, key: str, most: int, *, required: bool = False) -> "tuple[Reader, ...]":
        """A list of objects."""
        entries = self._list(key, most, required=required)
        return tuple(Reader(entry, f"{self._name}.{key}[{i}]") for i, entry in enumerate(entries))

    def mapping(self, key: str) -> Mapping[str, Any] | None:
        """An object as it is."""
        value = self._get(key)
        if value is not None and not isinstance(value, dict):
            raise self._error(key, "must be an object")
        return value

    def _drop(self, key: str) -> None:
        self.impossible = (*self.impossible, key)

    def _list(self, key: str, most: int, *, required: bool = False) -> list[Any]:
        value = self._get(key, required=required)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self._error(key, "must be a list")
        if len(value) > most:
            raise self._error(key, f"must have at most {most} entries")
        return value

    def _get(self, key: str, *, required: bool = False) -> Any:
        value = self._value.get(key)
        if value is None and required:
            raise self._error(key, "is required")
        return value

    def _error(self, key: str, problem: str) -> ValueError:
        return ValueError(f"{self._name}.{key} {problem}")
