"""The log lines of the program, as its processes write them."""

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest
import structlog

from app.observability.logs import configure_logs


class Lines:
    """What was written."""

    def __init__(self) -> None:
        self.stream = io.StringIO()

    def new(self) -> list[dict[str, Any]]:
        """Everything since the last time."""
        told = [json.loads(line) for line in self.stream.getvalue().splitlines()]
        self.stream.seek(0)
        self.stream.truncate()
        return told


@contextmanager
def written_by(**loggers: ModuleType) -> Iterator[Lines]:
    """Lines of the loggers of these names in their modules. A logger keeps the stream that it wrote to first: these are new ones."""
    made, before = Lines(), structlog.get_config()
    configure_logs("INFO", made.stream)
    with pytest.MonkeyPatch.context() as patch:
        for name, module in loggers.items():
            patch.setattr(module, name, structlog.get_logger(module.__name__))
        yield made
    configure_logs("INFO")
    structlog.configure(**before)
