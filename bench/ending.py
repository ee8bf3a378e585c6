"""A bench that is asked to end takes down what it started."""

import signal
import sys
from types import FrameType


def on_request() -> None:
    """From now on SIGTERM ends this process the way an error does: every `with` block is left in order."""
    signal.signal(signal.SIGTERM, _leave)


def _leave(number: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(128 + number)
