"""What the person in front of the terminal sees."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO


class Progress:
    """One line per step: its name at once, the seconds it took when it is done."""

    def __init__(self, out: TextIO = sys.stdout) -> None:
        self._out = out

    def say(self, text: str = "") -> None:
        """A line of its own."""
        self._write(text + "\n")

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """A step that fails ends its line with `failed`; the reason is the exception's."""
        self._write(f"  {name:.<34} ")
        started = time.monotonic()
        try:
            yield
        except BaseException:
            self._write("failed\n")
            raise
        self._write(f"{time.monotonic() - started:5.1f} s\n")

    def _write(self, text: str) -> None:
        """A terminal that went away (a closed window, a broken pipe) must not keep the stack from ending cleanly."""
        try:
            self._out.write(text)
            self._out.flush()
        except OSError:
            return
