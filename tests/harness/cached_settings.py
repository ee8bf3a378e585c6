"""Settings, read once for equal values: pydantic takes 1 to 3 ms for each reading, and nobody can change them."""

import os
from functools import cache
from typing import Any

from app.settings import Settings, load_settings
from app.settings.settings import PREFIX


def read_settings(**given: Any) -> Settings:
    """As `load_settings` in the present environment. The values must be hashable."""
    return _loaded(tuple(sorted(item for item in os.environ.items() if item[0].startswith(PREFIX))), **given)


@cache
def _loaded(_environment: tuple[tuple[str, str], ...], **given: Any) -> Settings:
    return load_settings(**given)
