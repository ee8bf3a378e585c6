"""A terminal with a command in it."""

import contextlib
import fcntl
import os
import pty
import re
import struct
import termios
import threading
from collections.abc import Mapping, Sequence
from typing import Self

from tests.cli.conftest import Cli

CONTROL = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class Terminal:
    """A pseudo-terminal of `columns` and 24 lines. The command's standard streams are this terminal."""

    def __init__(
        self, cli: Cli, arguments: Sequence[str], *, columns: int = 80, environ: Mapping[str, str] | None = None
    ) -> None:
        self._mine, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        inherited = {"TERM": "xterm-256color", "COLUMNS": "", "LINES": "", "NO_COLOR": ""}
        self.process = cli.fork(*arguments, stdin=theirs, stdout=theirs, environ={**inherited, **(environ or {})})
        os.close(theirs)
        self._shown = bytearray()
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()
        self._reader.join()
        os.close(self._mine)

    @property
    def raw(self) -> str:
        return self._shown.decode(errors="replace")

    @property
    def text(self) -> str:
        """Without control sequences."""
        return CONTROL.sub("", self.raw).replace("\r\n", "\n")

    def type(self, text: str) -> None:
        os.write(self._mine, text.encode())

    def wait_for(self, text: str) -> None:
        with self._news:
            assert self._news.wait_for(lambda: text in self.raw, 60), self.raw[-3000:]

    def finish(self) -> tuple[int, str]:
        """The exit code, and what the command wrote to standard error."""
        _, errors = self.process.communicate(timeout=60)
        self._reader.join(60)
        return self.process.returncode, errors

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # Linux reports a closed terminal as an error
            while chunk := os.read(self._mine, 65536):
                with self._news:
                    self._shown += chunk
                    self._news.notify_all()
