"""What a provider answers names roles, accounts and networks of the installation: operators see it, tenants never do.

Workers run whole leases whose provider calls fail with such words, one kind of failure after the other. Then every route is asked.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select

from app.db.leases import reboots
from app.db.schema.tables import webhook_delivery
from app.domain.ids import LeaseId
from app.domain.leases import VmState
from app.settings import AccountSettings, Settings
from cloudsim.testing import Control
from tests.api.conftest import Caller, MakeSettings
from tests.api.fleet import SSH_KEY
from tests.api.test_event_stream import running, stream
from tests.security.routes import BUDGET, HOOK, LEASE, OPERATIONS, Operation
from tests.workers import conftest as workers
from tests.workers.failing import Failing
from tests.workers.fleet import ACCOUNT, Fleet
from workers.delivery.webhooks import fan_out
from workers.jobs.housekeeping import number_events
from workers.providers import errors
from workers.providers.aws.adapter import AwsProvider
from workers.providers.errors import ProviderError
from workers.providers.types import ListingPage, Vm

virtual_time = workers.virtual_time
worker_settings = workers.worker_settings
sim = workers.sim
accounts_folder = workers.accounts_folder
make_fleet = workers.make_fleet
kept_view = workers.kept_view

IDS = (
    "arn:aws:sts::123456789012:assumed-role/gpulease-prod/i-0a1b2c3d4e5f60718",
    "123456789012",
    "subnet-0f1e2d3c4b5a69788",
    "9d2c1b0a-8f7e-4d6c-b5a4-392817060504",
    "projects/acme-prod-471100",
    "worker@acme-prod-471100.iam.gserviceaccount.com",
)
PLANTED = (
    f"User: {IDS[0]} is not authorized in account {IDS[1]}, {IDS[2]}, /subscriptions/{IDS[3]}, {IDS[4]} by {IDS[5]}"
)
MARKERS = (*IDS, "acme-prod", "gpulease-prod", "not authorized")

REFUSALS: tuple[type[ProviderError], ...] = (
    errors.InsufficientCapacity,
    errors.ProviderQuotaExceeded,
    errors.NotOffered,
    errors.InvalidSpec,
    errors.ImageMissing,
    errors.PriceTooLow,
)
UNSETTLED: tuple[type[ProviderError], ...] = (
    errors.Throttled,
    errors.Unreachable,
    errors.OutcomeUnknown,
    errors.TokenConflict,
)


class Telling(Failing):
    """A cloud that gives the planted words as the reason of every VM that ends."""

    def connect(self, account: AccountSettings, settings: Settings) -> AwsProvider:
        provider = super().connect(account, settings)
        for name, change in (("list", _telling_pages), ("get", _telling_vms)):
            setattr(provider, name, _changed(getattr(provider, name), change))
        return provider


def _changed(call: Callable[..., Any], change: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda *given: change(call(*given))


def _telling_pages(pages: Iterable[ListingPage]) -> Iterator[ListingPage]:
    for page in pages:
        yield replace(page, vms=[_telling(vm) for vm in page.vms])


def _telling_vms(vms: Mapping[str, Vm | None]) -> dict[str, Vm | None]:
    return {vm_id: None if vm is None else _telling(vm) for vm_id, vm in vms.items()}


def _telling(vm: Vm) -> Vm:
    if vm.state in {VmState.PENDING, VmState.RUNNING}:
        return vm
    return replace(vm, state_reason={**(vm.state_reason or {"code": "Server.InternalError"}), "message": PLANTED})


class Story:
    """Leases of one tenant that meet every failure."""

    def __init__(self, fleet: Fleet, failing: Failing) -> None:
        self.fleet, self.failing = fleet, failing
        self.leases: list[LeaseId] = []

    def tell_all(self) -> None:
        self.is_refused("image", errors.InvalidSpec)  # first: an image that was found is not asked for again
        for kind in REFUSALS:
            self.is_refused("launch", kind)
        for kind in UNSETTLED:
            self.is_not_answered(kind)
        self.is_refused("launch", errors.CredentialsRejected)
        self.failing.errors["identity"] = errors.CredentialsRejected(PLANTED, code="SomeCode")
        self.is_refused("launch", errors.CredentialsRejected, to=("queued", "failed"))
        self.fleet.runtime.accounts.require_identity(ACCOUNT)
        self.vm_ends_outside()
        self.vm_is_taken_back()
        self.vm_is_taken_back(on_interruption="replace")
        self.reboot_and_end_fail()
        self.fleet.runtime.accounts.set_aside(ACCOUNT, errors.CredentialsRejected(PLANTED, code="SomeCode"))

    def is_refused(self, call: str, kind: type[ProviderError], to: tuple[str, ...] = ("failed",)) -> None:
        self.failing.errors[call] = kind(PLANTED, code="SomeCode")
        lease_id = self._create()
        self.fleet.drive(
            lambda: self.fleet.lease(lease_id).state in to and self.fleet.lease(lease_id).reason is not None
        )
        self._recover()

    def is_not_answered(self, kind: type[ProviderError]) -> None:
        self.failing.errors |= dict.fromkeys(("launch", "find"), kind(PLANTED, code="SomeCode"))
        lease_id = self._create(wait_seconds=60)
        self.fleet.drive(lambda: any(one.error is not None for one in self.fleet.attempts(lease_id)))
        self._recover()
        self.fleet.end(lease_id)

    def vm_ends_outside(self) -> None:
        lease_id = self._active()
        self.fleet.sim.stop(self.fleet.lease(lease_id).placement["instance_id"])
        self.fleet.drive_to(lease_id, "released")

    def vm_is_taken_back(self, **changes: Any) -> None:
        lease_id = self._active(market="spot", **changes)
        self.fleet.sim.interrupt(self.fleet.lease(lease_id).placement["instance_id"], 0)
        self.fleet.drive(lambda: "attempt.dead" in self.fleet.events(lease_id))

    def reboot_and_end_fail(self) -> None:
        lease_id = self._active()
        self.failing.errors["reboot"] = errors.InvalidSpec(PLANTED, code="SomeCode")
        self.fleet.runtime.database.run(reboots.request(lease_id, "req_1", within=self.fleet.tenant_id))
        self.fleet.drive(lambda: "lease.reboot_failed" in self.fleet.events(lease_id))
        self.failing.errors["terminate"] = errors.OutcomeUnknown(PLANTED, code="SomeCode")
        self.fleet.end(lease_id)
        self.fleet.drive(lambda: self.fleet.attempts(lease_id)[0].error is not None)

    def _active(self, **changes: Any) -> LeaseId:
        lease_id = self._create(**changes)
        self.fleet.drive_to(lease_id, "active")
        return lease_id

    def _create(self, **changes: Any) -> LeaseId:
        self.leases.append(self.fleet.create(**changes))
        return self.leases[-1]

    def _recover(self) -> None:
        self.failing.errors.clear()
        self.fleet.end_cool_offs()


@pytest.fixture
def story(make_fleet: Callable[..., Fleet], sim: Control) -> Story:
    failing = Telling()
    fleet = make_fleet(connect_account=failing.connect)
    return Story(fleet, failing)


async def callers_of(operator: Caller, tenant_id: str) -> dict[str, Caller]:
    found = {}
    for role in ("viewer", "member", "admin"):
        made = await operator.post(f"/v1/tenants/{tenant_id}/keys", json={"name": role, "role": role})
        found[role] = Caller(operator.app, made.json()["secret"], tenant_id)
    return found


def readable() -> Iterator[Operation]:
    yield from (one for one in OPERATIONS if one.method == "GET" and one.role not in {None, "operator"})


async def answers(caller: Caller, leases: list[LeaseId], other: dict[str, str]) -> list[str]:
    """Of every read of a tenant, for each lease where one is named, and of a plan and a create."""
    found = []
    for one in readable():
        named = leases if "lease_id" in one.names("path") else leases[:1]
        for lease_id in named:
            ids = {"lease_id": lease_id, "tenant_id": caller.tenant_id, **other}
            answer = await caller.get(one.url(ids), params=one.page(200))
            found.append(f"{one.id} {answer.status_code} {answer.text}")
    for path in ("/v1/leases/plan", "/v1/leases"):
        answer = await caller.post(path, json={**LEASE, "ttl_seconds": 60})
        found.append(f"{path} {answer.status_code} {answer.text}")
    return found


def markers_in(texts: list[str]) -> list[tuple[str, str]]:
    return [(marker, text[:200]) for text in texts for marker in MARKERS if marker in text]


async def test_no_tenant_sees_what_a_provider_answered(
    story: Story, operator: Caller, make_settings: MakeSettings, database_url: str
) -> None:
    tenant_id = story.fleet.tenant_id
    callers = await callers_of(operator, tenant_id)
    hook = (await callers["admin"].post("/v1/webhooks", json={"url": HOOK})).json()["id"]
    body = {"name": "laptop", "public_key": SSH_KEY}
    ssh_key = (await callers["admin"].post("/v1/ssh-keys", json=body)).json()["id"]
    budget = (await callers["admin"].post("/v1/budgets", json=BUDGET)).json()["id"]
    nothing_to_quote = "quote_01h455vb4pex5vsknk084sn02q"
    volume = "vol_01h455vb4pex5vsknk084sn02q"
    other = {
        "volume_id": volume,
        "webhook_id": hook,
        "ssh_key_id": ssh_key,
        "budget_id": budget,
        "quote_id": nothing_to_quote,
    }
    other["group_id"] = "group_01h455vb4pex5vsknk084sn02q"
    story.tell_all()
    number_events(story.fleet.runtime)
    fan_out(story.fleet.runtime.database)
    for caller in callers.values():
        assert markers_in(await answers(caller, story.leases, other)) == []
    deliveries = story.fleet.runtime.database.all(select(webhook_delivery.c.about))
    assert len(deliveries) > len(story.leases)
    assert markers_in([str(row.about) for row in deliveries]) == []
    events = (await callers["viewer"].get("/v1/events", params={"limit": 200})).json()["items"]
    async with running(make_settings, database_url) as api, stream(api, callers["viewer"], "?after=0") as told:
        assert markers_in([str(await told.event()) for _ in events]) == []


async def test_operators_see_what_a_provider_answered(story: Story, operator: Caller) -> None:
    story.tell_all()
    explained = set()
    for lease_id in story.leases:
        shown = (await operator.get(f"/v1/leases/{lease_id}")).json()
        attempts = (await operator.get(f"/v1/leases/{lease_id}/attempts")).json()["items"]
        errors = [one["error"] for one in attempts if one["error"] is not None]
        assert all(PLANTED in error["provider_message"] for error in errors if error["class"] != "NeverSeen"), errors
        if (shown["reason"] or {}).get("origin") == "provider":
            assert PLANTED in (shown["provider_message"] or ""), shown["reason"]
            explained.add(shown["reason"]["code"])
    assert explained == {
        *("capacity_exhausted", "provider_quota", "provider_error", "image_missing", "provider_auth"),
        *("instance_lost", "interrupted"),
    }
