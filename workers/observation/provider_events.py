"""Provider events: a message from a cloud brings the next inventory of its region forward, and does nothing else.

A message never decides. Workers trust the inventory, not the content of the message. A lost, late, duplicate or forged
message changes nothing that polling would not change.
"""

import threading

import structlog

from app.db.fleet import jobs
from workers.providers.errors import ProviderError
from workers.runtime.loop import Loop
from workers.runtime.runtime import Runtime

log = structlog.get_logger(__name__)

_PAUSE = 2.0
"""Seconds between two receipts. A flood of messages causes no more inventories than this allows."""
_FAILED_PAUSE = (5.0, 60.0)


class EventListener:
    """A thread that reads one account's queue until the process stops."""

    def __init__(self, runtime: Runtime, account: str) -> None:
        self._runtime = runtime
        self._account = account
        self._failures = 0

    def start(self) -> threading.Thread:
        """Starts the thread. The thread ends soon after `runtime.stopping` is set."""
        return Loop(f"events-{self._account}", self._listen, stopping=self._runtime.stopping, pause=_PAUSE).start()

    def _listen(self) -> float | None:
        """Reads the queue once. A queue that cannot be read is tried again later; the account stays in use."""
        try:
            self.listen_once()
        except ProviderError as error:
            return self._failed(error.code, error.message)
        self._failures = 0
        return None

    def listen_once(self) -> int:
        """Reads messages, brings forward the inventory of their regions, then acknowledges them.

        Returns the number of regions.
        """
        provider = self._runtime.accounts.provider(self._account)
        events = provider.events()
        if not events:
            return 0
        known = set(self._runtime.accounts.places())
        named = {(self._account, region) for event in events for region in event.regions}
        places = sorted(known & named)
        if places:
            self._runtime.database.run(jobs.hurry("inventory", places))
            log.info("looking sooner", account=self._account, regions=[region for _, region in places])
        provider.acknowledge(events)
        return len(places)

    def _failed(self, code: str | None, message: str) -> float:
        self._failures += 1
        log.warning("no events", account=self._account, code=code, error=message)
        first, longest = _FAILED_PAUSE
        return float(min(longest, first * 2 ** min(self._failures - 1, 4)))
