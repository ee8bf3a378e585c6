"""Request rates as settings write them: `600/minute`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Self

_PERIODS: Mapping[str, int] = MappingProxyType({"second": 1, "minute": 60, "hour": 3600, "day": 86_400})
_FORM = re.compile(rf"([1-9]\d{{0,8}})/({'|'.join(_PERIODS)})")


@dataclass(frozen=True, slots=True)
class RequestRate:
    """`amount` requests in each period of so many `seconds`."""

    amount: int
    seconds: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads `<count>/<period>`. Raises ValueError with a clause that says what to write."""
        form = _FORM.fullmatch(text)
        if form is None:
            raise ValueError(f"must be a count and a period, such as 600/minute; the periods are {', '.join(_PERIODS)}")
        return cls(int(form[1]), _PERIODS[form[2]])
