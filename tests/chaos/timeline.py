"""One time for those who ask for leases and for what happens to them, on a machine that may be slower than the plan."""

import threading
import time
from enum import StrEnum

_AHEAD_SECONDS = 5.0


class Line(StrEnum):
    """Who goes along the timeline."""

    ASKING = "asking"
    HAPPENING = "happening"


class Timeline:
    """Seconds from its making. Nobody comes earlier than planned, nor far ahead of the other line.

    Whoever is held up moves all that follows: what was planned for a minute never happens within a second.
    """

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._late = 0.0
        self._reached = dict.fromkeys(Line, 0.0)
        self._moved = threading.Condition()

    @property
    def seconds(self) -> float:
        """Since it was made."""
        return time.monotonic() - self._began

    def wait_for(self, line: Line, at: float) -> None:
        """Until it is time for something of `line` that is planned at `at`; `reached` must follow."""
        with self._moved:
            self._moved.wait_for(
                lambda: all(self._reached[other] + _AHEAD_SECONDS >= at for other in Line if other != line)
            )
            while (early := at + self._late - self.seconds) > 0:
                self._moved.wait(early)
            self._late = max(self._late, self.seconds - at)

    def reached(self, line: Line, at: float) -> None:
        """What was planned at `at` is done; infinity: everything is."""
        with self._moved:
            self._reached[line] = max(self._reached[line], at)
            self._moved.notify_all()
