"""A message of a cloud makes a look come sooner, and nothing else."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from sqlalchemy import text, update

from app.db.schema.tables import periodic_job
from app.local.waiting import wait_until
from app.settings import AccountSettings, Settings
from tests.workers.fleet import ACCOUNT, REGION, Fleet
from workers.jobs.runner import ensure_jobs
from workers.jobs.schedule import job_specs
from workers.observation.provider_events import EventListener
from workers.providers.aws.adapter import AwsProvider
from workers.providers.aws.settings import AwsAccount
from workers.providers.errors import OutcomeUnknown
from workers.providers.types import ProviderEvent


class Telling:
    """What an account's queue holds: messages, or a failure to raise. `used`: receipts acknowledged."""

    def __init__(self) -> None:
        self.messages: list[ProviderEvent] = []
        self.failure: Exception | None = None
        self.asked = 0
        self.used: list[str] = []

    def connect(self, account: AccountSettings, settings: Settings) -> AwsProvider:
        return _Provider(self, account, settings)


class _Provider(AwsProvider):
    def __init__(self, telling: Telling, account: AccountSettings, settings: Settings) -> None:
        assert isinstance(account, AwsAccount)
        super().__init__(account, settings)
        self._telling = telling

    def events(self) -> Sequence[ProviderEvent]:
        self._telling.asked += 1
        if self._telling.failure is not None:
            raise self._telling.failure
        return self._telling.messages

    def acknowledge(self, used: Sequence[ProviderEvent]) -> None:
        self._telling.used += [one.receipt for one in used]


@pytest.fixture
def telling() -> Telling:
    return Telling()


@pytest.fixture
def fleet(make_fleet: Callable[..., Fleet], telling: Telling) -> Fleet:
    made = make_fleet(connect_account=telling.connect)
    ensure_jobs(made.runtime, job_specs(made.runtime.settings).all)
    made.runtime.database.run(update(periodic_job).values(next_due=text("now() + interval '1 hour'")))
    return made


def due(fleet: Fleet) -> set[Any]:
    rows = fleet.runtime.database.all(periodic_job.select().where(periodic_job.c.next_due <= text("now()")))
    return {(row.kind, row.account, row.region) for row in rows}


def test_a_message_makes_the_inventory_of_its_region_due_and_is_acknowledged(fleet: Fleet, telling: Telling) -> None:
    telling.messages = [ProviderEvent(receipt="r1", regions=frozenset({REGION})), ProviderEvent(receipt="r2")]
    assert EventListener(fleet.runtime, ACCOUNT).listen_once() == 1
    assert due(fleet) == {("inventory", ACCOUNT, REGION)}
    assert telling.used == ["r1", "r2"]


def test_a_forged_message_changes_no_lease(fleet: Fleet, telling: Telling) -> None:
    lease_id = fleet.create()
    fleet.drive_to(lease_id, "active")
    fleet.drive(lambda: fleet.step() == 0)
    before = fleet.row_versions(lease_id)
    telling.messages = [ProviderEvent(receipt="r1", regions=frozenset({REGION, "mars-1"}))]
    EventListener(fleet.runtime, ACCOUNT).listen_once()
    fleet.observe()
    assert fleet.row_versions(lease_id) == before
    assert fleet.lease(lease_id).state == "active"


def test_a_queue_that_cannot_be_read_sets_nothing_aside(fleet: Fleet, telling: Telling) -> None:
    telling.failure = OutcomeUnknown("no answer", code="Timeout")
    thread = EventListener(fleet.runtime, ACCOUNT).start()
    assert wait_until(lambda: telling.asked > 0, timeout=10)
    fleet.runtime.stopping.set()
    thread.join(10)
    assert not thread.is_alive()
    assert fleet.account().state == "ok"
    assert due(fleet) == set()
