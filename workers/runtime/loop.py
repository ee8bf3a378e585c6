"""The outermost loop of a thread: pass after pass until the process stops. Nothing that a pass raises ends the loop."""

import threading
from collections.abc import Callable

import structlog
from sqlalchemy.exc import DBAPIError

from workers.runtime.database import failure_name

log = structlog.get_logger(__name__)

_FAILED_PAUSE = 1.0


class Loop:
    """Repeats `do` until `stopping` is set.

    `do` returns the seconds until the next pass; None means `pause`. `wait` replaces `stopping.wait` where something else may
    end the pause early. After a pass that failed the loop pauses for one second at least.
    """

    def __init__(
        self,
        name: str,
        do: Callable[[], float | None],
        *,
        stopping: threading.Event,
        pause: float = 0.0,
        wait: Callable[[float], object] | None = None,
    ) -> None:
        self._name = name
        self._do = do
        self._stopping = stopping
        self._pause = pause
        self._wait = wait or stopping.wait

    def start(self) -> threading.Thread:
        """Runs the loop in a thread of its own, which ends soon after `stopping` is set."""
        thread = threading.Thread(target=self.run, name=self._name, daemon=True)
        thread.start()
        return thread

    def run(self) -> None:
        """Returns when `stopping` is set."""
        while not self._stopping.is_set():
            pause = self._pass()
            if pause > 0:
                self._wait(pause)

    def _pass(self) -> float:
        try:
            pause = self._do()
        except DBAPIError as error:
            log.warning(failure_name(error), loop=self._name, error=str(error.orig))
        except Exception:
            log.exception("pass failed", loop=self._name)
        else:
            return self._pause if pause is None else pause
        return max(self._pause, _FAILED_PAUSE)
