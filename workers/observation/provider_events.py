"""Provider events: a message of a cloud makes the next look at its region come sooner, and nothing else.

It never decides: what the message says is not believed, the look is. A lost, late, doubled or forged message changes
nothing that polling would not.
"""

import threading

import structlog
from sqlalchemy.exc import DBAPIError

from app.db.fleet import jobs
from workers.providers.base import ProviderError
from workers.runtime import Runtime

log = structlog.get_logger(__name__)

_PAUSE = 2.0
"""Between two receipts: so a flood of messages makes no more looks than that."""
_FAILED_PAUSE = (5.0, 60.0)


class EventListener:
    """A thread that listens to one account's queue until the process stops."""

    def __init__(self, runtime: Runtime, account: str) -> None:
        self._runtime = runtime
        self._account = account
        self._failures = 0

    def start(self) -> threading.Thread:
        """Starts the thread; it ends soon after `runtime.stopping` is set."""
        thread = threading.Thread(target=self.loop, name=f"events-{self._account}", daemon=True)
        thread.start()
        return thread

    def loop(self) -> None:
        """Outermost: a queue that cannot be read is tried again, the account is used as before."""
        while not self._runtime.stopping.is_set():
            pause = _PAUSE
            try:
                self.listen_once()
                self._failures = 0
            except ProviderError as error:
                pause = self._failed(error.code, error.message)
            except DBAPIError as error:
                pause = self._failed("database away", str(error.orig))
            except Exception:
                log.exception("events failed", account=self._account)
                pause = _FAILED_PAUSE[1]
            self._runtime.stopping.wait(pause)

    def listen_once(self) -> int:
        """Takes what is there, hurries the looks that it asks for, then acknowledges it. Answers how many looks."""
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
