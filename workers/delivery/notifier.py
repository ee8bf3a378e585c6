"""Receivers of messages to operators, through Apprise. Their URLs are secrets, and nothing here logs them."""

import hashlib
import logging
from collections.abc import Sequence
from typing import Any, Protocol

from app.settings import Settings, StartupError
from app.settings.passwords import read_password

_VARIABLE = "GPULEASE_NOTIFY_URLS"
_ID_DIGITS = 16


class Receiver(Protocol):
    """One URL. `id` identifies it without showing it."""

    @property
    def id(self) -> str: ...

    def send(self, title: str, body: str) -> bool:
        """Whether the receiver has accepted the notification. Never raises."""


class AppriseReceiver:
    """A URL of Apprise: its scheme names a service, such as slack or mailto."""

    def __init__(self, url: str, notifier: Any) -> None:
        self.id = hashlib.sha256(url.encode()).hexdigest()[:_ID_DIGITS]
        self._notifier = notifier

    def __repr__(self) -> str:
        return f"AppriseReceiver({self.id})"

    def send(self, title: str, body: str) -> bool:
        """Apprise limits each call to a few seconds, and reports a failure of any kind as False."""
        return bool(self._notifier.notify(title=title, body=body, body_format="text"))


def receivers(settings: Settings) -> Sequence[Receiver]:
    """A receiver for each URL of the settings, none without the setting.

    Raises StartupError for a URL that Apprise does not know, and without the extra `notify`.
    """
    text = read_password(_VARIABLE, settings.notify_urls, settings.notify_urls_file)
    urls = (text or "").split()
    if not urls:
        return ()
    try:
        from apprise import Apprise  # noqa: PLC0415 - an extra that only this needs
    except ImportError:
        raise StartupError(f"{_VARIABLE} needs the extra `notify`: pip install 'gpulease[server,notify]'") from None
    _silence()
    return [_receiver(number, url, Apprise()) for number, url in enumerate(urls, start=1)]


def _receiver(number: int, url: str, notifier: Any) -> Receiver:
    if not notifier.add(url) or len(notifier) != 1:
        raise StartupError(f"{_VARIABLE}: entry {number} is not a URL that Apprise knows; separate entries by spaces")
    return AppriseReceiver(url, notifier)


def _silence() -> None:
    """Apprise's own log lines name hosts and tokens."""
    logger = logging.getLogger("apprise")
    logger.setLevel(logging.CRITICAL)
    logger.propagate = False
