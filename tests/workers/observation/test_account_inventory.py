"""Clouds that list all regions of an account at once: one listing a cycle, everything that follows from it by region."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import text

from app.db.fleet import jobs
from app.db.schema.tables import account_region, periodic_job
from app.domain.ids import LeaseId
from app.settings import AccountSettings, Settings, load_settings
from cloudsim.testing import Control
from tests.workers import fleet as aws
from tests.workers.providers.gcp.accounts import EMAIL, PROJECT, key_file
from tests.workers.runtime.test_metrics import told
from tests.workers.virtual_time import VirtualTime
from workers.jobs.refresh_offerings import refresh
from workers.jobs.runner import JobSpec, PeriodicRunner, ensure_jobs
from workers.jobs.schedule import job_specs
from workers.observation.watch import watch
from workers.process.bootstrap import build_runtime
from workers.providers.errors import InvalidSpec, OutcomeUnknown, ProviderError
from workers.providers.gcp.adapter import GcpProvider
from workers.providers.gcp.settings import GcpAccount
from workers.providers.registry import connect
from workers.providers.types import ListingPage
from workers.runtime.accounts import Connect
from workers.runtime.runtime import Runtime

ACCOUNT = "many-regions"
HERE, THERE = REGIONS = ("us-central1", "europe-west4")
AZURE_REGIONS = ("eastus", "westeurope")
SUBNET = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/n/subnets/gpus"
GCP: dict[str, Any] = {"provider": "gcp"}
LISTS = {"gcp": ["instances.aggregatedList"], "azure": ["VirtualMachines.List", "VirtualMachines.ListAll"]}
WISHES: dict[str, dict[str, Any]] = {
    "gcp": {"gpu": {"model": "L4", "count": 1, "memory_gib": None}, "instance_types": ["g2-standard-4"]},
    "azure": {"gpu": {"model": "T4", "count": 1, "memory_gib": None}, "instance_types": ["Standard_NC4as_T4_v3"]},
}


class Fleet(aws.Fleet):
    """One worker with an account in two regions. `inventory` is the process that lists, one job at a time."""

    def __init__(
        self, runtime: Runtime, sim: Control, regions: Sequence[str], provider: str, virtual_time: VirtualTime
    ) -> None:
        super().__init__(runtime, sim, observe=False, virtual_time=virtual_time)
        self.regions = regions or REGIONS
        self.provider = provider
        self.runner = PeriodicRunner(runtime, job_specs(runtime.settings).inventory)
        for region in regions:
            refresh(runtime, ACCOUNT, region)
        self.inventory()

    def inventory(self) -> None:
        """What is due after one region was hurried: one job, once."""
        self.runtime.database.run(jobs.hurry("inventory", [(ACCOUNT, self.regions[-1])]))
        assert self.runner.run_one()
        assert not self.runner.run_one()

    def observe(self, *, inventory: bool = True) -> None:
        for region in self.regions:
            with suppress(ProviderError):
                watch(self.runtime, ACCOUNT, region)
        if inventory:
            self.inventory()

    def active_in(self, region: str) -> LeaseId:
        """A lease with its VM in this region."""
        lease_id = self.create(**WISHES[self.provider], regions=[region])
        assert self.drive_to(lease_id, "active", "failed").state == "active"
        return lease_id

    def row(self, region: str) -> Any:
        found = self.runtime.database.all(account_region.select().where(account_region.c.region == region))
        return found[0]

    def job(self) -> Any:
        (found,) = [one for one in self.jobs() if one.kind == "inventory"]
        return found

    def jobs(self) -> list[Any]:
        """Of the account, of all job_specs."""
        return self.runtime.database.all(periodic_job.select().where(periodic_job.c.account == ACCOUNT))

    def listings(self) -> list[int]:
        """List calls that the cloud has seen, by operation."""
        made = self.sim.calls(self.provider)
        return [made.get(operation, 0) for operation in LISTS[self.provider]]

    def vm_state(self, lease_id: LeaseId) -> str:
        (attempt,) = self.attempts(lease_id)
        return str(attempt.vm_state)

    def stop_all(self) -> None:
        """Somebody ends every VM, and the cloud shows them no more."""
        for vm in self.vms():
            self.sim.stop(vm["id"], provider=self.provider)
        self.wait_for(lambda: self.sim.resources(provider=self.provider) == [])

    def plant_rowless(self, count: int, region: str) -> None:
        """VMs of this installation that no row knows."""
        labels = {"gpulease-installation": self.runtime.installation.id}
        place = {"region": region, "zone": f"{region}-a", "instance_type": "g2-standard-4"}
        self.sim.plant(**place, tags=labels, count=count, **GCP)


class Failing(GcpProvider):
    """A cloud whose listing breaks off after its first page, or that cannot tell of a region."""

    broken = False
    untold: str | None = None

    def __init__(self, account: AccountSettings, settings: Settings) -> None:
        assert isinstance(account, GcpAccount)
        super().__init__(account, settings)

    def list(self, regions: frozenset[str], installation: str) -> Iterator[ListingPage]:
        for page in super().list(regions, installation):
            failed = {self.untold: OutcomeUnknown("no answer", code="Lost")} if self.untold else {}
            yield ListingPage(vms=page.vms, unreachable=page.unreachable, failed=failed)
            if self.broken:
                raise OutcomeUnknown("no second page", code="BrokenOff")


Start = Callable[..., Fleet]


@pytest.fixture
def start(
    worker_settings: dict[str, Any],
    sim: Control,
    virtual_time: VirtualTime,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Start]:
    """Starts a worker over the same database and cloud; without regions, one whose configuration names no account."""
    monkeypatch.setenv("AZURE_CLIENT_SECRET", "simulated")
    fleets: list[Fleet] = []

    def make(provider: str, *regions: str, connect_account: Connect = connect, **changes: Any) -> Fleet:
        config = tmp_path / f"{len(fleets)}.toml"
        subnets = ", ".join(f"{region} = '{SUBNET}'" for region in regions)
        of_provider = {
            "gcp": f'project = "{PROJECT}"\ncredentials_file = "{key_file(tmp_path, sim.url, EMAIL)}"\n',
            "azure": 'subscription_id = "00000000-0000-4000-8000-000000000001"\nresource_group = "gpulease"\n'
            f"subnet_ids = {{ {subnets} }}\n",
        }
        account = (
            f'[[accounts]]\nprovider = "{provider}"\nname = "{ACCOUNT}"\nregions = {list(regions)}\n'
            f'endpoint_url = "{sim.url}"\n{of_provider[provider]}'
        )
        config.write_text(account if regions else "")
        given = {**worker_settings, "config": config, **changes}
        settings, monotonic = load_settings(**given), virtual_time.monotonic
        runtime = build_runtime(settings, connect_account=connect_account, monotonic=monotonic)
        fleets.append(Fleet(runtime, sim, regions, provider, virtual_time))
        return fleets[-1]

    yield make
    for fleet in fleets:
        fleet.close()


@pytest.mark.parametrize(("provider", "regions"), [("gcp", REGIONS), ("azure", AZURE_REGIONS)])
def test_one_listing_a_cycle_serves_all_regions(start: Start, provider: str, regions: tuple[str, str]) -> None:
    fleet = start(provider, *regions)
    leases = [fleet.active_in(region) for region in regions]
    fleet.drive(lambda: fleet.step() == 0)
    written, cycles = [fleet.row_versions(one) for one in leases], [fleet.row(one).cycles for one in regions]
    before = fleet.listings()
    for _ in range(3):
        fleet.inventory()
    assert [after - count for after, count in zip(fleet.listings(), before, strict=True)] == [3] * len(before)
    assert [fleet.row(one).cycles for one in regions] == [count + 3 for count in cycles]
    assert [fleet.row(one).listed for one in regions] == [1, 1]
    assert len({fleet.row(one).last_listing_started_at for one in regions}) == 1
    assert [fleet.row_versions(one) for one in leases] == written, "what is unchanged is not written"
    assert (fleet.job().account, fleet.job().region) == (ACCOUNT, None)
    fleet.sim.settings(terminated_visible_seconds=0)
    fleet.stop_all()
    fleet.drive_all_to(leases, "released")
    assert fleet.used() == {}


def test_an_interruption_is_told_in_each_region_by_one_question(start: Start) -> None:
    fleet = start("gcp", *REGIONS)
    leases = [fleet.create(**WISHES["gcp"], market="spot", regions=[region]) for region in REGIONS]
    for lease_id in leases:
        assert fleet.drive_to(lease_id, "active", "failed").state == "active"
    fleet.sim.settings(shutdown_seconds=60.0)
    for vm in fleet.vms():
        fleet.sim.interrupt(vm["id"], 0, **GCP)
    asked = fleet.sim.calls("gcp")["globalOperations.aggregatedList"]
    fleet.inventory()
    assert fleet.sim.calls("gcp")["globalOperations.aggregatedList"] == asked + 1
    assert [fleet.lease(one).interruption["action"] for one in leases] == ["terminate"] * 2


def test_a_zone_out_of_reach_changes_nothing_there_and_all_elsewhere(start: Start) -> None:
    fleet = start("gcp", *REGIONS)
    unseen, seen = fleet.active_in(HERE), fleet.active_in(THERE)
    (attempt,) = fleet.attempts(unseen)
    fleet.sim.fault("instances.aggregatedList", "error", region=attempt.zone, times=None, **GCP)
    fleet.stop_all()
    fleet.inventory()
    assert (fleet.vm_state(unseen), fleet.vm_state(seen)) == ("running", "absent")
    fleet.sim.clear_faults()
    fleet.inventory()
    assert fleet.vm_state(unseen) == "absent"


def test_a_listing_that_breaks_off_changes_nothing_anywhere_and_shows_everywhere(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = start("gcp", *REGIONS, connect_account=Failing)
    leases = [fleet.active_in(region) for region in REGIONS]
    fleet.stop_all()
    listed_at = [fleet.row(region).last_complete_listing_at for region in REGIONS]
    monkeypatch.setattr(Failing, "broken", True)
    fleet.inventory()
    assert [fleet.vm_state(one) for one in leases] == ["running", "running"]
    assert [fleet.row(region).last_complete_listing_at for region in REGIONS] == listed_at
    assert [fleet.row(region).last_error["code"] for region in REGIONS] == ["BrokenOff"] * 2
    assert all(fleet.row(region).last_error["since"] for region in REGIONS), "a region without an answer ranks last"
    assert "BrokenOff" in fleet.job().last_error
    monkeypatch.setattr(Failing, "broken", False)
    fleet.inventory()
    assert [fleet.vm_state(one) for one in leases] == ["absent", "absent"]
    assert [fleet.row(region).last_error for region in REGIONS] == [None, None]
    assert fleet.job().last_error is None


def test_refused_credentials_show_at_every_region_and_set_the_account_aside(start: Start) -> None:
    fleet = start("gcp", *REGIONS)
    fleet.sim.credentials(bad=[EMAIL])
    fleet.inventory()
    assert {fleet.row(region).last_error["class"] for region in REGIONS} == {"CredentialsRejected"}
    states = fleet.runtime.database.all(text("SELECT state FROM account"))
    assert [row.state for row in states] == ["failing"]


def test_a_region_that_cannot_be_told_of_does_not_stop_the_others(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = start("gcp", *REGIONS, connect_account=Failing)
    untold, told = fleet.active_in(HERE), fleet.active_in(THERE)
    fleet.stop_all()
    cycles = fleet.row(HERE).cycles
    monkeypatch.setattr(Failing, "untold", HERE)
    fleet.inventory()
    assert (fleet.vm_state(untold), fleet.vm_state(told)) == ("running", "absent")
    assert (fleet.row(HERE).cycles, fleet.row(HERE).last_error["code"]) == (cycles, "Lost")
    assert fleet.row(THERE).last_error is None
    assert fleet.job().last_error.startswith(f"{HERE}: OutcomeUnknown")


@pytest.mark.parametrize(
    "harm",
    ["UPDATE account_region SET cycles = 2147483647", "DELETE FROM account_region"],
    ids=["statement", "program"],
)
def test_a_comparison_that_fails_in_one_region_does_not_stop_the_others(
    start: Start, database_url: str, harm: str
) -> None:
    fleet = start("gcp", *REGIONS)
    with psycopg.connect(database_url) as connection:
        connection.execute(f"{harm} WHERE region = '{HERE}'".encode())
    fleet.inventory()
    assert fleet.row(THERE).cycles == 2
    assert fleet.job().last_error.startswith(f"{HERE}: ")


def test_a_mass_loss_is_braked_in_its_own_region(start: Start) -> None:
    fleet = start("gcp", *REGIONS, rowless_grace_seconds=0.0)
    fleet.plant_rowless(6, HERE)
    fleet.plant_rowless(1, THERE)
    fleet.inventory()
    assert len(fleet.vms()) == 7, "seen once"
    assert fleet.row(HERE).last_error["class"] == "MassLoss"
    assert fleet.row(THERE).last_error is None
    fleet.inventory()
    fleet.wait_for(lambda: {vm["region"] for vm in fleet.vms()} == {HERE})
    assert len(fleet.vms()) == 6
    fleet.inventory()
    fleet.wait_for(lambda: fleet.vms() == [])


def test_regions_are_added_and_a_drained_account_is_listed_until_its_vms_are_gone(start: Start) -> None:
    fleet = start("gcp", HERE)
    lease_id = fleet.active_in(HERE)
    grown = start("gcp", *REGIONS)
    assert grown.job().name == fleet.job().name
    assert grown.row(THERE).cycles == 1
    assert grown.runtime.first_listings.done(ACCOUNT, THERE)

    cycles = grown.row(HERE).cycles
    rest = start("gcp")
    assert (rest.row(HERE).cycles, rest.row(THERE).cycles) == (cycles + 1, 2)
    rest.end(lease_id)
    rest.drive_to(lease_id, "released")
    ensure_jobs(rest.runtime, job_specs(rest.runtime.settings).all)
    assert rest.jobs() == []


class Steps:
    """Two steps of a job, the first of which fails in one region. `done`: what was begun, in its order."""

    def __init__(self, fail: Callable[[], object]) -> None:
        self.done: list[tuple[str, str]] = []
        self._fail = fail

    def together(self, *_: object) -> Sequence[Callable[[str], None]]:
        return self.first, self.second

    def first(self, region: str) -> None:
        self.done.append(("first", region))
        if region == HERE:
            self._fail()

    def second(self, region: str) -> None:
        self.done.append(("second", region))


def test_a_region_that_fails_in_one_step_has_no_part_in_the_next(start: Start) -> None:
    fleet = start("gcp", *REGIONS)
    failures: list[Callable[[], object]] = [
        lambda: fail(InvalidSpec("no", code="X")),
        lambda: fail(ValueError("no")),
        lambda: fleet.runtime.database.all(text("SELECT 1 / 0")),
    ]
    for number, failure in enumerate(failures):
        steps = Steps(failure)
        kind = JobSpec(name=f"test-{number}", run=fail, together=steps.together, interval=lambda _: 60.0)
        ensure_jobs(fleet.runtime, {kind.name: kind})
        assert PeriodicRunner(fleet.runtime, {kind.name: kind}).run_one()
        assert steps.done == [("first", HERE), ("first", THERE), ("second", THERE)]
    assert fleet.row(HERE).last_error["code"] == "X"
    assert fleet.row(THERE).last_error is None


def test_a_failure_common_to_the_regions_counts_once_and_one_of_a_region_for_it_alone(start: Start) -> None:
    fleet = start("gcp", *REGIONS)

    def common(*_: object) -> Sequence[Callable[[str], object]]:
        raise InvalidSpec("no", code="X")

    def alone(*_: object) -> Sequence[Callable[[str], object]]:
        return (lambda _region: fail(InvalidSpec("no", code="X")),)

    counts = []
    for together in (common, alone):
        kind = JobSpec(name=together.__name__, run=fail, together=together, interval=lambda _: 60.0)
        ensure_jobs(fleet.runtime, {kind.name: kind})
        assert PeriodicRunner(fleet.runtime, {kind.name: kind}).run_one()
        counts += told(fleet.runtime.metrics, "job_failures_total", f'kind="{kind.name}"')
    assert counts == [1.0, len(REGIONS)]


def fail(error: object, *_: object) -> None:
    assert isinstance(error, Exception)
    raise error
