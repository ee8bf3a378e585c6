"""Responses as examples: ids, secrets and times are replaced by ones that stay the same."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
"""The time of the examples."""
MOST_ITEMS = 2
_ID = re.compile(r"\b([a-z]+)_([0-7][0-9a-z]{25})\b")
_SECRET = re.compile(r"\b(gpl|whsec)_\S{30,}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)")


class Recording:
    """`examples` and `ids` contain the value of each path parameter: in the examples, and in the recorded responses."""

    def __init__(self, examples: Mapping[str, str], ids: Mapping[str, str]) -> None:
        self._known = {value: examples[name] for name, value in ids.items()}
        self._began = datetime.now(UTC)  # noqa: TID251 - the responses contain the database's time
        self._responses: dict[str, Any] = {}

    def add(self, schema: str, response: Any) -> None:
        """Keeps the first response of each schema."""
        self._responses.setdefault(schema, self._replaced(response))

    def merged(self, examples: Mapping[str, Any]) -> dict[str, Any]:
        """The examples with the kept responses, sorted by schema."""
        return {**examples, "responses": dict(sorted(self._responses.items()))}

    def _replaced(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self._replaced(part) for name, part in value.items()}
        if isinstance(value, list):
            return [self._replaced(part) for part in value[:MOST_ITEMS]]
        if isinstance(value, str):
            return _TIME.sub(self._time, _ID.sub(self._id, _SECRET.sub(self._secret, value)))
        return round(value, 3) if isinstance(value, float) else value

    def _id(self, found: re.Match[str]) -> str:
        number = 1 + sum(known.startswith(f"{found[1]}_") for known in self._known)
        return self._known.setdefault(found[0], f"{found[1]}_01jz{number:022d}")

    def _secret(self, found: re.Match[str]) -> str:
        return f"{found[1]}_…"

    def _time(self, found: re.Match[str]) -> str:
        moment = datetime.fromisoformat(found[0])
        if moment.year < 2029:  # a later time is a constant of the request
            began = self._began
            if not moment.timestamp() % 3600:  # the start of a step stays at a full hour; the last step ends at noon
                began = began.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
            moment = NOON + timedelta(seconds=round((moment - began).total_seconds()))
        return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
