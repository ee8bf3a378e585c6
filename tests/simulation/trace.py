"""What happened, in words that are the same in every replay: ids are named in the order they turn up."""

import hashlib
import re
from collections import deque
from typing import Any, NoReturn

import structlog

from tests.simulation.cloud import Violation
from tests.simulation.scheduler import Scheduler

_ID = re.compile(
    r"(lease|attempt|tenant|event|group|batch)_[0-9a-z]{26}|[0-9a-f]{64}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
)
_KEPT = 2000
_UNTOLD = ("seconds", "result")
"""What is measured by the real clock, or tells where something lies in memory."""


class Trace:
    """The last lines, and a digest over all of them: two runs are the same run when their digests are."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._names: dict[str, str] = {}
        self._digest = hashlib.sha256()
        self.lines: deque[str] = deque(maxlen=_KEPT)

    def tell(self, text: str) -> None:
        actor = self._scheduler.current
        line = f"{self._scheduler.now:10.3f} {actor.name if actor else 'world':<12} {_ID.sub(self._name, text)}"
        self._digest.update(line.encode())
        self.lines.append(line)

    def _name(self, match: re.Match[str]) -> str:
        kind = match[1] or ("token" if len(match[0]) == 64 else "uuid")
        if match[0] not in self._names:
            count = sum(name.startswith(kind) for name in self._names.values())
            self._names[match[0]] = f"{kind}-{count + 1}"
        return self._names[match[0]]

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()


class Log:
    """Stands in for the loggers of the program: its words are part of the trace, and some of them are violations."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def debug(self, event: str, **values: Any) -> None:
        self._write(event, values)

    info = warning = debug

    def error(self, event: str, **values: Any) -> None:
        self._write(event, values)
        if event == "invariant broken":
            raise Violation(f"{event}: {values}")

    def exception(self, event: str, **values: Any) -> NoReturn:
        self._write(event, values)
        raise Violation(f"{event} {values}: an exception that nobody expects")

    def _write(self, event: str, values: dict[str, Any]) -> None:
        if event == "statement failed":
            raise Violation(f"{event}: {values}")
        about = {**dict(sorted(structlog.contextvars.get_contextvars().items())), **values}
        told = (f"{key}={value}" for key, value in about.items() if key not in _UNTOLD)
        self._trace.tell(f"{event} {' '.join(told)}")
