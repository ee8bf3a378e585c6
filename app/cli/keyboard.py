"""Single-key input without Enter (Unix)."""

import os
import select
import signal
import sys
import termios
import threading
import tty
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def ending_with(key: str) -> Iterator[None]:
    """Within the context, pressing `key` acts like Ctrl-C, and typed characters are not shown.

    Only for the main thread. Has no effect if standard input is not a terminal. Restores the terminal's settings.
    """
    if not sys.stdin.isatty():
        yield
        return
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    over, end = os.pipe()
    listener = threading.Thread(target=_listen, args=(terminal, over, key.encode(), threading.get_ident()))
    tty.setcbreak(terminal)
    listener.start()
    try:
        yield
    finally:
        os.write(end, b".")
        listener.join()
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
        os.close(end)
        os.close(over)


def _listen(terminal: int, over: int, key: bytes, main_thread: int) -> None:
    while True:
        ready, _, _ = select.select([terminal, over], [], [])
        if over in ready:
            return
        pressed = os.read(terminal, 1)
        if pressed == key:
            signal.pthread_kill(main_thread, signal.SIGINT)
        if pressed in {key, b""}:
            return
