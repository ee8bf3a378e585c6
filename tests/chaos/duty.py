"""The operator on duty: does what docs/operations.md asks for whenever the installation is on hold."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import datetime

import httpx

from app.local.waiting import wait_until
from tests.e2e.people import Operator
from tests.e2e.stack import PATIENCE

_LOOK_SECONDS = 0.5
_OPEN = ("seen", "ending")


class Duty:
    """`holds`: seconds that each hold lasted until it was lifted. `reasons`: why they were set.

    `ended`: VMs that cannot be adopted, which the operator ended, by the cloud's own id.
    """

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self.holds: list[float] = []
        self.reasons: list[str] = []
        self.ended: set[str] = set()

    @contextmanager
    def on_duty(self) -> Iterator[None]:
        """For the time of the block. Nobody answers the API's outages but the next look."""
        over = threading.Event()

        def watch() -> None:
            while not over.wait(_LOOK_SECONDS):
                with suppress(httpx.HTTPError):
                    self._look()

        with ThreadPoolExecutor(1) as watching:
            watched = watching.submit(watch)
            try:
                yield
            finally:
                over.set()
                watched.result()

    def _look(self) -> None:
        hold = self._operator.hold()
        if hold is None:
            return
        noticed = time.monotonic()
        self.reasons.append(hold["reason"])
        self._recover(hold["since"])
        self.holds.append(round(time.monotonic() - noticed, 1))

    def _recover(self, since: str) -> None:
        """Every region is listed; then adopt; then the adoptions are done; then end what cannot be adopted; then resume."""
        self._await(lambda: self._listed_since(since))
        if self._operator.adopt():
            self._await(self._adopted)
        self._end_others()
        self._operator.resume()

    @staticmethod
    def _await(done: Callable[[], bool]) -> None:
        """A cloud that is away for long is not waited for: its VMs are judged when it is back."""
        wait_until(lambda: _answered(done), timeout=PATIENCE, poll=_LOOK_SECONDS)

    def _listed_since(self, since: str) -> bool:
        regions = (
            region for account in self._operator.get("/v1/ops/accounts")["items"] for region in account["regions"]
        )
        times = [region["last_complete_listing_at"] for region in regions]
        return all(at is not None and datetime.fromisoformat(at) > datetime.fromisoformat(since) for at in times)

    def _adopted(self) -> bool:
        """None is left that is to be adopted and has not failed to be."""
        waiting = (one for one in self._operator.orphans() if one["adopt_requested_at"] and not one["adopt_error"])
        return not any(one["state"] in _OPEN for one in waiting)

    def _end_others(self) -> None:
        """VMs that an adoption has refused, such as those of a lost batch that have no tags of their own."""
        for one in self._operator.orphans():
            if one["cause"] == "lost_row" and one["adopt_error"] and one["state"] in _OPEN:
                self._operator.end_orphan(one["id"])
                self.ended.add(one["instance_id"].rpartition(":")[2])


def _answered(done: Callable[[], bool]) -> bool:
    with suppress(httpx.HTTPError):
        return done()
    return False
