"""Every call with several items, at every cloud, with one item that refuses: the others are done, that one is named with its reason.

The simulated clouds refuse as the real ones do: EC2 fails the whole call, Compute Engine and Azure are asked item by item.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from app.domain.offerings import Market
from app.domain.tags import DEADLINE
from app.settings import AccountSettings
from app.settings.providers import providers
from cloudsim.testing import Control, running
from tests.harness.cached_settings import read_settings
from tests.harness.lines import written_by
from tests.workers.clouds import PLACES, REFUSALS
from tests.workers.ports import METHODS
from tests.workers.providers import queues
from tests.workers.providers.azure.accounts import GROUP, SUBSCRIPTION
from tests.workers.providers.azure.accounts import account as azure_account
from tests.workers.providers.contract import volumes
from tests.workers.providers.gcp.accounts import account as gcp_account
from tests.workers.providers.gcp.accounts import key_file
from tests.workers.providers.samples import INSTALLATION, owner
from workers.providers.aws.quotas import CODES as AWS_QUOTAS
from workers.providers.aws.settings import AwsAccount
from workers.providers.common import batch
from workers.providers.gcp import offerings
from workers.providers.ports import Provider
from workers.providers.registry import connect
from workers.providers.types import BatchResult, ListingPage, ProviderEvent

OTHER_ZONES = {"aws": "us-east-1b", "gcp": "us-central1-b", "azure": "eastus-2"}
OTHER_REGIONS = {"aws": "us-west-2", "gcp": "europe-west4", "azure": "westeurope"}
LATER = datetime(2026, 12, 1, tzinfo=UTC)
MOST_TAGS = 50
PORTION = 200
"""VMs that EC2 is asked for at a time."""

ONE_ITEM = {
    "identity",
    "trust",
    "disk_kinds",
    "image",
    "plan",
    "launch",
    "find",
    "plan_batch",
    "launch_batch",
    "find_batch",
    "console_output",
    "remove_leftover",
    "create_volume",
    "attach_volume",
    "delete_volume",
    "events",
}
"""Methods of the interface that are about one thing."""
GROUPS = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}/providers/Microsoft.Compute/capacityReservationGroups/"
NO_ITEM_OF_ITS_OWN = {
    ("azure", "label_slots"): "creates one VM with each call",
    ("aws", "leftovers"): "one list for each kind; a kind that is not told of may hide any lease's",
    ("azure", "leftovers"): "the same",
    ("aws", "offered"): "one list of the region",
    ("aws", "reservations"): "the same",
    ("azure", "offered"): "one list of the region",
    ("azure", "service_quotas"): "one list of the region",
    ("aws", "part_prices"): "one list of the region",
    ("azure", "part_prices"): "the same",
    ("gcp", "part_prices"): "one list of all SKUs",
    ("gcp", "prices"): "one list of all SKUs",
    ("gcp", "price_list"): "the same",
    ("azure", "list_volumes"): "one list of the group",
    ("azure", "list"): "one list of the group; a VM whose state cannot be read: azure/test_vms.py",
    ("azure", "list_everywhere"): "one list of the subscription",
    ("azure", "interruptions"): "never asks",
    ("gcp", "acknowledge"): "one call, whose answer does not tell messages apart",
}
"""Calls in which the cloud refuses all or nothing."""


@dataclass
class Outcome:
    """What a call did, by item, and the codes of the items that it did not do."""

    done: set[str]
    refused: dict[str, str | None]


@dataclass
class Cloud:
    """An account at one simulated cloud."""

    name: str
    provider: Provider
    sim: Control
    queue: queues.Queue

    @property
    def region(self) -> str:
        return PLACES[self.name]["region"]

    def plant(self, count: int = 1, *, tags: Mapping[str, str] | None = None, **place: Any) -> list[str]:
        """Running VMs of ours; their ids as the adapter has them."""
        given = {key.lower(): value.lower() for key, value in (tags or owner().as_tags()).items()}
        numbers = self.sim.plant(provider=self.name, **{**PLACES[self.name], **place}, tags=given, count=count)
        every = {one["id"]: one for one in self.sim.instances(provider=self.name)}
        return [self._id(every[number]) for number in numbers]

    def _id(self, vm: Mapping[str, Any]) -> str:
        parts = {"aws": ["id"], "gcp": ["zone", "name", "id"], "azure": ["name", "id"]}[self.name]
        return ":".join(str(vm[part]) for part in parts)

    def fault(self, operation: str, code: str | None = None, *, times: int | None = 1, **more: Any) -> None:
        self.sim.fault(operation, "error", provider=self.name, code=code, times=times, **more)


def number(vm_id: str) -> str:
    """The cloud's own part of an id."""
    return vm_id.rpartition(":")[2]


def changed(result: BatchResult) -> Outcome:
    return Outcome(set(result.done), {one: error.code for one, error in result.refused.items()})


def read(ask: Callable[[], Iterable[str]]) -> Outcome:
    """What a question told, and what it logged that it did not tell."""
    with written_by(log=batch) as lines:
        done = set(ask())
        left_out = {str(line["item"]): line["code"] for line in lines.new() if line["event"] == "item left out"}
    return Outcome(done, left_out)


def listed(pages: Iterator[ListingPage]) -> Outcome:
    """By place: where VMs show, and what the listing says that it could not see."""
    told = list(pages)
    lost: dict[str, str | None] = {zone: None for page in told for zone in page.unreachable}
    lost |= {region: error.code for page in told for region, error in page.failed.items()}
    return Outcome({vm.zone for page in told for vm in page.vms}, lost)


Case = Callable[[Cloud], tuple[Outcome, Outcome]]
"""What the call did, and what it should have done."""
CASES: dict[tuple[str, str], Case] = {}


def case(call: str, *clouds: str) -> Callable[[Case], Case]:
    def register(run: Case) -> Case:
        CASES.update({(cloud, call): run for cloud in clouds})
        return run

    return register


# --- calls that change something --------------------------------------------------------------------------


@case("terminate", "aws", "gcp", "azure")
def terminate(cloud: Cloud) -> tuple[Outcome, Outcome]:
    first, protected, elsewhere = *cloud.plant(2), *cloud.plant(zone=OTHER_ZONES[cloud.name])
    cloud.sim.protect(number(protected), provider=cloud.name)
    result = changed(cloud.provider.terminate(cloud.region, [first, protected, elsewhere]))
    still = {vm["id"] for vm in cloud.sim.instances(provider=cloud.name) if vm["state"] == "running"}
    assert still == {number(protected)}
    return result, Outcome({first, elsewhere}, {protected: REFUSALS[cloud.name]})


@case("set_deadline", "aws")
def set_deadline_where_one_vm_has_no_room_for_a_tag(cloud: Cloud) -> tuple[Outcome, Outcome]:
    full = {key: text for key, text in owner().as_tags().items() if key != DEADLINE}
    full |= {f"t{n}": "x" for n in range(MOST_TAGS - len(full))}
    first, refusing, last = *cloud.plant(), *cloud.plant(tags=full), *cloud.plant()
    result = cloud.provider.set_deadline(cloud.region, [first, refusing, last], LATER)
    return changed(result), Outcome({first, last}, {refusing: "TagLimitExceeded"})


@case("set_deadline", "gcp", "azure")
def set_deadline(cloud: Cloud) -> tuple[Outcome, Outcome]:
    refusing, *others = cloud.plant(3)
    operations = {"gcp": "instances.setLabels", "azure": "VirtualMachines.Update"}
    code = {"gcp": "conditionNotMet", "azure": "ScopeLocked"}[cloud.name]
    cloud.fault(operations[cloud.name], code)
    result = cloud.provider.set_deadline(cloud.region, [refusing, *others], LATER)
    return changed(result), Outcome(set(others), {refusing: code})


@case("label_slots", "aws")
def label_slots_where_one_vm_has_no_room_for_a_tag(cloud: Cloud) -> tuple[Outcome, Outcome]:
    full = {f"t{n}": "x" for n in range(MOST_TAGS)}
    first, refusing, last = *cloud.plant(tags={"t": "x"}), *cloud.plant(tags=full), *cloud.plant(tags={"t": "x"})
    result = cloud.provider.label_slots(cloud.region, dict.fromkeys((first, refusing, last), owner()))
    return changed(result), Outcome({first, last}, {refusing: "TagLimitExceeded"})


@case("label_slots", "gcp")
def label_slots(cloud: Cloud) -> tuple[Outcome, Outcome]:
    refusing, *others = cloud.plant(3)
    cloud.fault("instances.setLabels", "conditionNotMet")
    result = cloud.provider.label_slots(cloud.region, dict.fromkeys((refusing, *others), owner()))
    return changed(result), Outcome(set(others), {refusing: "conditionNotMet"})


@case("reboot", "aws", "gcp", "azure")
def reboot_where_one_vm_is_ending(cloud: Cloud) -> tuple[Outcome, Outcome]:
    first, ending, last = cloud.plant(3)
    cloud.sim.stop(number(ending), provider=cloud.name)
    codes = {"aws": "IncorrectState", "gcp": "resourceNotReady", "azure": "OperationNotAllowed"}
    result = cloud.provider.reboot(cloud.region, [first, ending, last])
    return changed(result), Outcome({first, last}, {ending: codes[cloud.name]})


@case("acknowledge", "aws", "azure")
def acknowledge(cloud: Cloud) -> tuple[Outcome, Outcome]:
    cloud.queue.put("a", "b", "c")
    receipts = {"r1": "r1", "r2": "r2", "r3": "r3"}
    if cloud.name == "azure":
        receipts = {one: f"{one} {one}+/=" for one in receipts}
    cloud.queue.refusing = {"r2"}

    def acknowledged() -> Iterable[str]:
        cloud.provider.acknowledge([ProviderEvent(receipt=one) for one in receipts.values()])
        return ()

    result = read(acknowledged)
    deleted = set(receipts) - set(cloud.queue.waiting)
    code = {"aws": "InternalError", "azure": "HTTP500"}[cloud.name]
    return Outcome(deleted, result.refused), Outcome({"r1", "r3"}, {receipts["r2"]: code})


# --- calls that read --------------------------------------------------------------------------------------


@case("get", "aws")
def get_where_one_portion_refuses(cloud: Cloud) -> tuple[Outcome, Outcome]:
    ids = cloud.plant(PORTION + 2)
    cloud.fault("DescribeInstances", "InternalError")
    refused: dict[str, str | None] = dict.fromkeys(ids[:PORTION], "InternalError")
    return read(lambda: cloud.provider.get(cloud.region, ids)), Outcome(set(ids[PORTION:]), refused)


@case("get", "gcp")
def get_where_one_zone_refuses(cloud: Cloud) -> tuple[Outcome, Outcome]:
    hidden, seen = *cloud.plant(), *cloud.plant(zone=OTHER_ZONES["gcp"])
    zone = PLACES["gcp"]["zone"]
    cloud.fault("instances.list", "backendError", times=None, region=zone)
    return read(lambda: cloud.provider.get(cloud.region, [hidden, seen])), Outcome({seen}, {zone: "backendError"})


@case("get", "azure")
def get(cloud: Cloud) -> tuple[Outcome, Outcome]:
    refusing, *others = cloud.plant(3)
    cloud.fault("VirtualMachines.Get", "InternalServerError")
    told = read(lambda: cloud.provider.get(cloud.region, [refusing, *others]))
    return told, Outcome(set(others), {refusing: "InternalServerError"})


@case("ready", "aws")
def ready_where_one_id_fails_the_call(cloud: Cloud) -> tuple[Outcome, Outcome]:
    """EC2's message about an id that it cannot read names none of those that it knows."""
    first, last = cloud.plant(2)
    return read(lambda: cloud.provider.ready(cloud.region, [first, "i-zz", last])), Outcome({first, last}, {})


@case("ready", "gcp", "azure")
def ready(cloud: Cloud) -> tuple[Outcome, Outcome]:
    refusing, *others = cloud.plant(3)
    operation = {"gcp": "instances.getGuestAttributes", "azure": "VirtualMachines.Get"}[cloud.name]
    code = {"gcp": "backendError", "azure": "InternalServerError"}[cloud.name]
    cloud.fault(operation, code)
    told = read(lambda: cloud.provider.ready(cloud.region, [refusing, *others]))
    expected = set(others) if cloud.name == "azure" else set()  # Google's planted VMs have written no attribute
    return told, Outcome(expected, {refusing: code})


@case("list", "aws", "gcp")
def list_where_one_place_refuses(cloud: Cloud) -> tuple[Outcome, Outcome]:
    return _listed(
        cloud, lambda: cloud.provider.list(frozenset({cloud.region, OTHER_REGIONS[cloud.name]}), INSTALLATION)
    )


@case("list_everywhere", "aws", "gcp")
def list_everywhere_where_one_place_refuses(cloud: Cloud) -> tuple[Outcome, Outcome]:
    return _listed(cloud, lambda: cloud.provider.list_everywhere(INSTALLATION))


def _listed(cloud: Cloud, ask: Callable[[], Iterator[ListingPage]]) -> tuple[Outcome, Outcome]:
    elsewhere = OTHER_REGIONS[cloud.name]
    zone = {"aws": f"{elsewhere}a", "gcp": f"{elsewhere}-a"}[cloud.name]
    cloud.plant()
    cloud.plant(region=elsewhere, zone=zone)
    operation = {"aws": "DescribeInstances", "gcp": "instances.aggregatedList"}[cloud.name]
    hidden = {"aws": elsewhere, "gcp": zone}[cloud.name]
    cloud.fault(operation, "InternalError" if cloud.name == "aws" else None, times=None, region=hidden)
    code = "InternalError" if cloud.name == "aws" else None
    return listed(ask()), Outcome({PLACES[cloud.name]["zone"]}, {hidden: code})


def _volume(cloud: Cloud, letter: str, zone: str | None = None) -> str:
    new = volumes.new_volume(cloud.provider, zone or PLACES[cloud.name]["zone"], letter)
    return cloud.provider.create_volume(cloud.region, new).id


@case("get_volumes", "aws")
def get_volumes_where_one_portion_refuses(cloud: Cloud) -> tuple[Outcome, Outcome]:
    hidden = [f"vol-{n:017x}" for n in range(PORTION)]
    seen = _volume(cloud, "a")
    cloud.fault("DescribeVolumes", "InternalError")
    told = read(lambda: cloud.provider.get_volumes(cloud.region, [*hidden, seen]))
    return told, Outcome({seen}, {hidden[0]: "InternalError"})


@case("get_volumes", "gcp")
def get_volumes_where_one_zone_refuses(cloud: Cloud) -> tuple[Outcome, Outcome]:
    hidden, seen = _volume(cloud, "a"), _volume(cloud, "b", OTHER_ZONES["gcp"])
    zone = PLACES["gcp"]["zone"]
    cloud.fault("disks.list", "backendError", times=None, region=zone)
    return read(lambda: cloud.provider.get_volumes(cloud.region, [hidden, seen])), Outcome(
        {seen}, {zone: "backendError"}
    )


@case("get_volumes", "azure")
def get_volumes(cloud: Cloud) -> tuple[Outcome, Outcome]:
    refusing, other = _volume(cloud, "a"), _volume(cloud, "b")
    cloud.fault("Disks.Get", "InternalServerError")
    told = read(lambda: cloud.provider.get_volumes(cloud.region, [refusing, other]))
    return told, Outcome({other}, {refusing: "InternalServerError"})


@case("list_volumes", "aws", "gcp")
def list_volumes_where_one_place_refuses(cloud: Cloud) -> tuple[Outcome, Outcome]:
    elsewhere, seen = OTHER_REGIONS[cloud.name], _volume(cloud, "a")
    operation = {"aws": "DescribeVolumes", "gcp": "disks.aggregatedList"}[cloud.name]
    hidden = {"aws": elsewhere, "gcp": f"{elsewhere}-a"}[cloud.name]
    cloud.fault(operation, "InternalError" if cloud.name == "aws" else None, times=None, region=hidden)
    listing = cloud.provider.list_volumes(frozenset({cloud.region, elsewhere}), INSTALLATION)
    code = "InternalError" if cloud.name == "aws" else "UNREACHABLE"
    failed = {region: error.code for region, error in listing.failed.items()}
    return Outcome({volume.id for volume in listing.volumes}, failed), Outcome({seen}, {elsewhere: code})


@case("interruptions", "aws")
def interruptions_where_one_region_refuses(cloud: Cloud) -> tuple[Outcome, Outcome]:
    elsewhere = OTHER_REGIONS["aws"]
    (taken,) = cloud.plant(market="spot")
    cloud.sim.interrupt(taken, 120)
    cloud.fault("DescribeSpotInstanceRequests", "InternalError", region=elsewhere)
    regions = frozenset({cloud.region, elsewhere})
    told = read(lambda: (one.vm_id for one in cloud.provider.interruptions(regions, INSTALLATION)))
    return told, Outcome({taken}, {elsewhere: "InternalError"})


@case("interruptions", "gcp")
def interruptions_where_one_zone_refuses(cloud: Cloud) -> tuple[Outcome, Outcome]:
    seen, hidden = *cloud.plant(market="spot"), *cloud.plant(market="spot", zone=OTHER_ZONES["gcp"])
    for one in (seen, hidden):
        cloud.sim.interrupt(number(one), 0, provider="gcp")
    cloud.fault("instances.list", "backendError", times=None, region=OTHER_ZONES["gcp"])
    told = read(lambda: (one.vm_id for one in cloud.provider.interruptions(frozenset({cloud.region}), INSTALLATION)))
    return told, Outcome({seen}, {OTHER_ZONES["gcp"]: "backendError"})


@case("leftovers", "gcp")
def leftovers_where_one_zone_refuses(cloud: Cloud) -> tuple[Outcome, Outcome]:
    cloud.fault("disks.aggregatedList", times=None, region=OTHER_ZONES["gcp"])
    left = cloud.provider.leftovers(cloud.region, INSTALLATION, None)
    return Outcome(set(), dict.fromkeys(left.unreachable)), Outcome(set(), {OTHER_ZONES["gcp"]: None})


@case("offered", "gcp")
def offered_where_one_zone_refuses(cloud: Cloud) -> tuple[Outcome, Outcome]:
    zones = {one.zone for one in cloud.provider.offered(cloud.region)}
    cloud.fault("machineTypes.aggregatedList", times=None, region=OTHER_ZONES["gcp"])
    with written_by(log=offerings) as lines:
        told = {one.zone for one in cloud.provider.offered(cloud.region)}
        refused: dict[str, str | None] = {
            zone: None for line in lines.new() if line["event"] == "zones left out" for zone in line["zones"]
        }
    return Outcome(told, refused), Outcome(zones - {OTHER_ZONES["gcp"]}, {OTHER_ZONES["gcp"]: None})


@case("prices", "aws", "azure")
def prices_where_one_type_refuses(cloud: Cloud) -> tuple[Outcome, Outcome]:
    def names() -> set[str]:
        return {name for name, market in cloud.provider.prices(cloud.region) if market is Market.ON_DEMAND}

    every = names()
    operation = {"aws": "GetProducts", "azure": "RetailPrices.List"}[cloud.name]
    code = {"aws": "InternalError", "azure": "InternalServerError"}[cloud.name]
    cloud.fault(operation, code)
    told = read(names)
    (refusing,) = told.refused
    return told, Outcome(every - {refusing}, {refusing: code})


@case("price_list", "aws", "azure")
def price_list_where_one_type_refuses(cloud: Cloud) -> tuple[Outcome, Outcome]:
    every = {name for page in cloud.provider.price_list() for _, name, _ in page.prices}
    operation = {"aws": "GetProducts", "azure": "RetailPrices.List"}[cloud.name]
    code = {"aws": "InternalError", "azure": "InternalServerError"}[cloud.name]
    cloud.fault(operation, code)
    pages = list(cloud.provider.price_list())
    listed = {name for page in pages for _, name, _ in page.prices}
    refused = {name: page.error.code for page in pages for name in page.types if page.error is not None}
    (refusing,) = refused
    return Outcome(listed, refused), Outcome(every - {refusing}, {refusing: code})


@case("service_quotas", "aws")
def service_quotas_where_one_refuses(cloud: Cloud) -> tuple[Outcome, Outcome]:
    refusing, *others = AWS_QUOTAS
    cloud.fault("GetServiceQuota", "InternalError")
    told = read(lambda: (one.code for one in cloud.provider.service_quotas(cloud.region)))
    return told, Outcome(set(others), {refusing: "InternalError"})


@case("service_quotas", "gcp")
def service_quotas_of_the_project_refuse(cloud: Cloud) -> tuple[Outcome, Outcome]:
    every = {one.code for one in cloud.provider.service_quotas(cloud.region)}
    cloud.fault("projects.get", "backendError")
    told = read(lambda: (one.code for one in cloud.provider.service_quotas(cloud.region)))
    return told, Outcome(every - {"GPUS_ALL_REGIONS"}, {"project": "backendError"})


def reserved(kind: str, provider: str, prefix: str = "") -> tuple[dict[str, str], ...]:
    """Settings of two reservations. Nothing was bought, which each of them shows."""
    return tuple({"name": name, "kind": kind, "id": prefix + name, **PLACES[provider]} for name in ("r1", "r2"))


@case("reservations", "gcp", "azure")
def reservations_where_one_refuses(cloud: Cloud) -> tuple[Outcome, Outcome]:
    operation = {"gcp": "reservations.get", "azure": "CapacityReservations.ListByCapacityReservationGroup"}[cloud.name]
    code = {"gcp": "backendError", "azure": "InternalServerError"}[cloud.name]
    cloud.fault(operation, code)
    told = read(lambda: (one.name for one in cloud.provider.reservations(cloud.region)))
    return told, Outcome({"r2"}, {"r1": code})


# --- the test ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sim() -> Iterator[Control]:
    with running(boot_seconds=0.0, shutdown_seconds=60.0) as control:
        yield control


@pytest.fixture
def queue() -> Iterator[queues.Queue]:
    with queues.running() as server:
        yield server


@pytest.fixture
def cloud(request: pytest.FixtureRequest, sim: Control, queue: queues.Queue, tmp_path: Path) -> Cloud:
    name, call = request.param
    sim.reset()
    accounts: dict[str, Callable[[], AccountSettings]] = {
        "aws": lambda: AwsAccount(
            provider="aws",
            name="sim",
            regions=(PLACES["aws"]["region"],),
            endpoint_url=sim.url,
            events_queue_url=f"{queue.url}/queue",
        ),
        "gcp": lambda: gcp_account(sim.url, key_file(tmp_path, sim.url), reservations=reserved("reservation", "gcp")),
        "azure": lambda: azure_account(
            sim.url,
            events_queue_url=f"{queue.url}/queue",
            reservations=reserved("capacity_reservation_group", "azure", GROUPS),
        ),
    }
    account = accounts[name]()
    if (name, call) == ("aws", "acknowledge"):  # boto3 asks the account's endpoint for it, not the queue's address
        account = account.model_copy(update={"endpoint_url": queue.url})
    return Cloud(name, connect(account, read_settings(call_timeout=20.0)), sim, queue)


@pytest.mark.parametrize("cloud", sorted(CASES), indirect=True, ids="-".join)
def test_the_others_are_done_and_the_one_that_refuses_is_named(cloud: Cloud, request: pytest.FixtureRequest) -> None:
    happened, expected = CASES[request.node.callspec.params["cloud"]](cloud)
    assert happened == expected


def test_every_call_with_several_items_is_tried_at_every_cloud() -> None:
    every = {(cloud, call) for cloud in providers() for call in METHODS - ONE_ITEM}
    assert every == CASES.keys() | NO_ITEM_OF_ITS_OWN.keys()
    assert not CASES.keys() & NO_ITEM_OF_ITS_OWN.keys()
