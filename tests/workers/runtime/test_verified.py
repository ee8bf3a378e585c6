"""Calls to an account verify its credentials by themselves: the first one, and one that meets others than the verified ones."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import cast

import pytest

from app.observability.traces import Traces
from app.settings import AccountSettings, Settings, load_settings
from tests.workers.runtime.test_metrics import AWS
from workers.providers.common.batch import each
from workers.providers.credentials import CredentialGuard
from workers.providers.errors import CredentialsRejected, OutcomeUnknown, Unreachable
from workers.providers.ports import Provider
from workers.providers.types import BatchResult, ListingPage
from workers.runtime.metered import metered
from workers.runtime.metrics import WorkerMetrics
from workers.runtime.permits import Permits
from workers.runtime.verified import VerifyingProvider


class Account:
    """An adapter whose credentials change; `pages` of a listing."""

    def __init__(self) -> None:
        self.guard = CredentialGuard()
        self.credentials = "first"
        self.questions = 0
        self.asked: list[str] = []
        self.failure: Exception | None = None

    def identity(self) -> str:
        self.questions += 1
        if self.failure is not None:
            raise self.failure
        with self.guard.asking() as question:
            self.guard.check(self.credentials)
        self.guard.learn(question, "us")
        return "us"

    def trust(self, identity: str) -> None:
        self.guard.trust(identity)

    def terminate(self, region: str, vm_ids: list[str]) -> BatchResult:
        def end(_: str) -> bool:
            self.guard.check(self.credentials)
            return True

        result = each(vm_ids, end)
        self.asked.append(region)
        return result

    def list(self, regions: frozenset[str], installation: str) -> Iterator[ListingPage]:
        for _ in range(2):
            self.guard.check(self.credentials)
            yield ListingPage(vms=())


@pytest.fixture
def account() -> Account:
    return Account()


@pytest.fixture
def provider(account: Account) -> Provider:
    def verify() -> None:
        guarded.trust(guarded.identity())

    guarded = VerifyingProvider.over(account, verify)  # pyrefly: ignore[bad-argument-type]  # as much of one as these tests ask
    return guarded


def test_the_first_call_verifies_and_the_next_ones_do_not(account: Account, provider: Provider) -> None:
    for _ in range(3):
        assert provider.terminate("a", ["i"]) == BatchResult(done=frozenset({"i"}))
    assert (account.questions, account.asked) == (1, ["a"] * 3)


def test_threads_that_meet_new_credentials_verify_them_once(account: Account, provider: Provider) -> None:
    provider.terminate("a", ["i"])
    account.credentials = "second"
    together = threading.Barrier(8)

    def end(number: int) -> None:
        together.wait(timeout=30)
        provider.terminate(str(number), ["i"])

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(end, range(8)))
    assert account.questions == 2
    assert len(account.asked) == 9


def test_a_thread_that_verifies_needs_no_permit_of_those_that_wait_for_it(account: Account) -> None:
    """Else the process would stand still: they wait for what it has verified, and it for one of their permits."""
    permits, asked, answered = Permits(1), threading.Event(), threading.Event()

    def asks(_account: AccountSettings, _settings: Settings) -> Provider:
        return cast(Provider, account)

    provider = metered(asks, WorkerMetrics(), Traces(), time.monotonic)(AWS, load_settings())

    def verify() -> None:
        asked.set()
        identity = provider.identity()
        assert answered.wait(10)
        guarded.trust(identity)

    guarded = VerifyingProvider.over(provider, verify)

    def work(number: str) -> None:
        with permits.working():
            guarded.terminate(number, ["i"])

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in "12"]
    threads[0].start()
    assert asked.wait(10)
    threads[1].start()
    with permits.working():
        answered.set()
    for thread in threads:
        thread.join(10)
    assert sorted(account.asked) == ["1", "2"]


@pytest.mark.parametrize(
    ("failure", "raised"),
    [
        (OutcomeUnknown("no answer", code="Timeout"), Unreachable),
        (CredentialsRejected("not you", code="AuthFailure"), CredentialsRejected),
    ],
)
def test_without_an_answer_nothing_is_sent(
    account: Account, provider: Provider, failure: Exception, raised: type[Exception]
) -> None:
    account.failure = failure
    with pytest.raises(raised):
        provider.terminate("a", ["i"])
    assert account.asked == []


def test_a_listing_with_new_credentials_verifies_them_at_its_first_page_and_breaks_off_later(
    account: Account, provider: Provider
) -> None:
    assert len(list(provider.list(frozenset(), "x"))) == 2
    account.credentials = "second"
    pages = provider.list(frozenset(), "x")
    next(pages)
    assert account.questions == 2
    account.credentials = "third"
    with pytest.raises(Unreachable, match="not verified"):
        next(pages)


def test_a_batch_does_not_take_unverified_credentials_for_the_refusal_of_an_item(
    account: Account, provider: Provider
) -> None:
    provider.terminate("a", ["i"])
    account.credentials = "second"
    assert provider.terminate("a", ["i", "j"]) == BatchResult(done=frozenset({"i", "j"}))
