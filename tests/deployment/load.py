"""People who use the service all the time, each request counted."""

import itertools
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx

from cloudsim.testing import NO_TLS

_PEOPLE = 3
_PAUSE_SECONDS = 0.05
_ROUNDS_BEFORE_RELEASE = 40
_WISH = {"gpu": {"model": "A10G", "count": 1}, "ttl_seconds": 3600, "wait_seconds": 120}


@dataclass
class Tally:
    """`failed` tells each request that was not answered as it should be."""

    requests: int = 0
    failed: list[str] = field(default_factory=list)
    leases: list[str] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)


@contextmanager
def load(url: str, key: str) -> Iterator[Tally]:
    """For as long as the block lasts: leases are created, read, listed and released."""
    tally, over = Tally(), threading.Event()
    with ThreadPoolExecutor(_PEOPLE) as people:
        going = [people.submit(_use, url, key, tally, over) for _ in range(_PEOPLE)]
        try:
            yield tally
        finally:
            over.set()
    for one in going:
        one.result()


def _use(url: str, key: str, tally: Tally, over: threading.Event) -> None:
    headers = {"Authorization": f"Bearer {key}"}
    with httpx.Client(base_url=url, headers=headers, timeout=60, trust_env=False, verify=NO_TLS) as http:
        while not over.is_set():
            created = _ask(
                tally, lambda: http.post("/v1/leases", json=_WISH, headers={"Idempotency-Key": uuid.uuid4().hex})
            )
            if created is None:
                continue
            lease_id = created.json()["id"]
            with tally.lock:
                tally.leases.append(lease_id)
            for number in itertools.count():
                path = "/v1/leases" if number % 4 == 3 else f"/v1/leases/{lease_id}"
                _ask(tally, lambda path=path: http.get(path))
                if number == _ROUNDS_BEFORE_RELEASE or over.wait(_PAUSE_SECONDS):
                    break
            _ask(tally, lambda lease_id=lease_id: http.delete(f"/v1/leases/{lease_id}"))


def _ask(tally: Tally, ask: Callable[[], httpx.Response]) -> httpx.Response | None:
    began = time.monotonic()
    problem: str | None = None
    answer: httpx.Response | None = None
    try:
        answer = ask()
    except httpx.HTTPError as error:
        problem = f"{error.request.method} {error.request.url.path}: {type(error).__name__} {error}"
    if answer is not None and not answer.is_success:
        problem = f"{answer.request.method} {answer.request.url.path}: {answer.status_code} {answer.text[:200]}"
        answer = None
    with tally.lock:
        tally.requests += 1
        if problem is not None:
            tally.failed.append(f"{problem} (after {time.monotonic() - began:.1f} s)")
    return answer
