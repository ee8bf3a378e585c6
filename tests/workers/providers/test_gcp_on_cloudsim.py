"""The contract, for Compute Engine against the simulated cloud."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.domain.leases import VmState
from app.domain.offerings import Market
from cloudsim.gce.credentials import issue
from cloudsim.testing import NO_TLS, Control, running
from tests.cloudsim.gce.discovery import checked
from tests.workers.providers import contract
from tests.workers.providers.contract import Power
from tests.workers.providers.gcp.accounts import EMAIL, PROJECT, REGION, ZONE, provider
from tests.workers.providers.samples import INSTALLATION, owner
from workers.providers import errors
from workers.providers.gcp.groups import GcpGroupResources
from workers.providers.ports import Provider
from workers.providers.types import Image, Params

LACKS = {
    Power.NOTICES: "tells only the VM, half a minute before",
    Power.HELD: "removes a firewall rule in use",
}

FAULTS: Mapping[type[errors.ProviderError], str] = {
    errors.InsufficientCapacity: "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS",
    errors.ProviderQuotaExceeded: "QUOTA_EXCEEDED",
    errors.InvalidSpec: "invalid",
    errors.CredentialsRejected: "forbidden",
    errors.Throttled: "rateLimitExceeded",
    errors.OutcomeUnknown: "backendError",
}
GCP = {"provider": "gcp"}


class OnCloudsim:
    """`Backend` over the control API."""

    region = REGION
    other_region = "europe-west4"
    zone = ZONE
    other_zone = "us-central1-b"
    instance_type = "g2-standard-4"
    short_timeout = 1.0
    refusals: Sequence[type[errors.ProviderError]] = tuple(kind for kind in FAULTS if kind is not errors.OutcomeUnknown)
    belonging_kinds = frozenset({"volume"})
    firewall_stages: Sequence[str] = ("IPv4", "IPv6")
    group_stages: Sequence[str] = (
        "resourcePolicies.insert",
        "firewalls.insert",
        "resourcePolicies.get",
        "instances.insert",
    )
    page = 500
    portion = 50

    def __init__(self, sim: Control, folder: Path) -> None:
        self.provider: Provider = checked(provider(sim.url, folder))
        self.impatient: Provider = provider(sim.url, folder, call_timeout=self.short_timeout)
        self.sim = sim
        self._image: Image | None = None

    def forget(self) -> None:
        """What the adapter has just made for a group is not there any more."""
        adapter: Any = self.provider
        adapter._groups = GcpGroupResources()

    def image(self) -> Image:
        self._image = self._image or self.provider.image(self.region)
        return self._image

    def alive(self) -> Mapping[str, Mapping[str, str]]:
        found = self.sim.instances(alive="true", **GCP)
        return {f"{one['zone']}:{one['name']}:{one['id']}": one["tags"] for one in found}

    def belongings(self, vm_id: str) -> Mapping[str, Mapping[str, str]]:
        number = vm_id.rpartition(":")[2]
        found = self.sim.resources(**GCP)
        return {one["kind"]: one["tags"] for one in found if one["instance_id"] == number}

    def refuse(self, kind: type[errors.ProviderError]) -> None:
        self.sim.fault("instances.insert", "error", code=FAULTS[kind], **GCP)

    def refuse_late(self) -> None:
        self.sim.settings(refusal_seconds=0.3)
        self.sim.capacity(0, zone=self.zone, **GCP)

    def lose_next_launch_reply(self) -> None:
        self.sim.fault("instances.insert", "lose_reply", **GCP)

    def lose_next_batch_reply(self) -> None:
        self.sim.fault("instances.bulkInsert", "lose_reply", **GCP)

    def shuffle_next_batch(self) -> None:
        self.sim.fault("instances.bulkInsert", "shuffle", **GCP)

    def leave_room(self, zone: str, count: int) -> None:
        self.sim.capacity(count, zone=zone, **GCP)

    def hang_next_launch(self) -> None:
        self.sim.fault("instances.insert", "hang", **GCP)

    def exhaust(self, zone: str) -> None:
        self.sim.capacity(0, zone=zone, **GCP)

    def interrupt(self, vm_id: str, notice_seconds: float) -> None:
        self.sim.interrupt(vm_id.rpartition(":")[2], notice_seconds, **GCP)

    def end_from_outside(self, vm_id: str) -> None:
        self.sim.stop(vm_id.rpartition(":")[2], **GCP)

    def plant(self, count: int, tags: Mapping[str, str]) -> None:
        place = {"region": self.region, "zone": self.zone, "instance_type": self.instance_type}
        self.sim.plant(**place, tags=_labels(tags), count=count, **GCP)

    def plant_elsewhere(self, tags: Mapping[str, str]) -> None:
        self.sim.plant(region=self.other_region, instance_type=self.instance_type, tags=_labels(tags), **GCP)

    def firewalls(self, vm_id: str) -> Mapping[str, Sequence[contract.Inbound]]:
        targets = set(self._instance(vm_id)["tags"]["items"])
        rules = self._get("global/firewalls").get("items", [])
        ours = [one for one in rules if targets.intersection(one["targetTags"]) and "sourceRanges" in one]
        return {one["name"]: list(_inbound(one)) for one in ours}

    def open_ports(self, source: str, target: str, ports: Sequence[int]) -> tuple[int, ...]:
        """By the first rule that applies, in the order of priorities, refusals first. Without one, nothing arrives."""
        sender, receiver = (self._instance(vm) for vm in (source, target))
        rules = [*self._get("global/firewalls").get("items", []), *USUAL_RULES]
        rules.sort(key=lambda rule: (rule["priority"], "denied" not in rule))
        return tuple(
            port
            for port in ports
            if next(("allowed" in rule for rule in rules if _applies(rule, sender, receiver, port)), False)
        )

    def placed(self, vm_id: str) -> str | None:
        return next(iter(self._instance(vm_id).get("resourcePolicies", [])), None)

    def lose_reply(self, call: str) -> None:
        self.sim.fault(call, "lose_reply", **GCP)

    def _instance(self, vm_id: str) -> Any:
        zone, name, _ = vm_id.split(":")
        return self._get(f"zones/{zone}/instances/{name}")

    def _get(self, path: str) -> Any:
        url = f"{self.sim.url}/compute/v1/projects/{PROJECT}/{path}"
        return httpx.get(url, headers={"Authorization": f"Bearer {issue(EMAIL)}"}, verify=NO_TLS).json()

    def break_firewall(self, stage: str) -> None:
        if stage == "IPv6":
            self.sim.fault("firewalls.insert", "delay", delay_seconds=0.0, **GCP)
        self.sim.fault("firewalls.insert", "lose_reply", **GCP)

    def reboots(self) -> int:
        return self.sim.calls("gcp").get("instances.reset", 0)

    def keeping_the_disk(self, params: Params) -> Params:
        (disk,) = params["instance"]["disks"]
        return params | {"instance": params["instance"] | {"disks": [disk | {"autoDelete": False}]}}


USUAL_RULES: list[Any] = [
    {"priority": 65534, "sourceRanges": ["172.16.0.0/12"], "allowed": [{"IPProtocol": "all"}]},
    {"priority": 65534, "sourceRanges": ["0.0.0.0/0"], "allowed": [{"IPProtocol": "tcp", "ports": ["22"]}]},
    {"priority": 1000, "sourceRanges": ["172.16.0.0/12"], "allowed": [{"IPProtocol": "all"}]},
]
"""Those of the network `default` (VPC guide, "Pre-populated rules in the default network"), for the addresses of the
simulated one, and a rule of an operator with the usual priority."""


def _applies(rule: Any, sender: Any, receiver: Any, port: int) -> bool:
    address = ip_address(sender["networkInterfaces"][0]["networkIP"])
    is_from = any(address in ip_network(one) for one in rule.get("sourceRanges", ())) or bool(
        set(rule.get("sourceTags", ())) & set(sender["tags"]["items"])
    )
    is_for = not rule.get("targetTags") or bool(set(rule["targetTags"]) & set(receiver["tags"]["items"]))
    named = rule.get("allowed") or rule["denied"]
    is_port = any(
        one["IPProtocol"] == "all" or (one["IPProtocol"] == "tcp" and str(port) in one["ports"]) for one in named
    )
    return is_from and is_for and is_port


def _labels(tags: Mapping[str, str]) -> dict[str, str]:
    return {key.lower(): value.lower().replace("'", "_") for key, value in tags.items()}


def _inbound(rule: Mapping[str, Any]) -> Iterator[contract.Inbound]:
    for allowed in rule["allowed"]:
        for port in allowed["ports"]:
            for network in rule["sourceRanges"]:
                yield allowed["IPProtocol"], int(port), int(port), network


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnCloudsim]:
    with running(boot_seconds=0.6, shutdown_seconds=0.05, cleanup_seconds=0.05) as sim:
        yield OnCloudsim(sim, tmp_path_factory.mktemp("gcp"))


@pytest.fixture
def backend(cloud: OnCloudsim) -> OnCloudsim:
    cloud.sim.reset()
    cloud.forget()
    return cloud


@pytest.mark.parametrize("case", contract.cases(LACKS))
def test_contract(case: contract.Case, backend: OnCloudsim) -> None:
    case(backend)


def test_refused_credentials_are_credentials_rejected_for_every_question(backend: OnCloudsim) -> None:
    params = backend.provider.plan(contract.wish(backend, allowed_cidrs=contract.NETWORKS))
    vm = contract.launch(backend)
    batch = contract.batches.planned(backend)
    backend.sim.credentials(bad=[EMAIL])
    questions: dict[str, Any] = {
        "identity": lambda p: p.identity(),
        "offered": lambda p: p.offered(backend.region),
        "service_quotas": lambda p: p.service_quotas(backend.region),
        "image": lambda p: p.image(backend.region),
        "launch": lambda p: p.launch(backend.region, params),
        "find": lambda p: p.find(backend.region, "f" * 64, owner()),
        "launch_batch": lambda p: p.launch_batch(backend.region, batch),
        "find_batch": lambda p: p.find_batch(backend.region, batch),
        "label_slots": lambda p: p.label_slots(backend.region, {vm.id: owner()}).require(),
        "get": lambda p: p.get(backend.region, [vm.id]),
        "list": lambda p: list(p.list(frozenset({backend.region}), "x")),
        "ready": lambda p: p.ready(backend.region, [vm.id]),
        "interruptions": lambda p: p.interruptions(frozenset({backend.region}), "x"),
        "reboot": lambda p: p.reboot(backend.region, [vm.id]).require(),
        "console_output": lambda p: p.console_output(backend.region, vm.id),
        "terminate": lambda p: p.terminate(backend.region, [vm.id]).require(),
        "leftovers": lambda p: p.leftovers(backend.region, "x", None),
        "set_deadline": lambda p: p.set_deadline(backend.region, [vm.id], owner().deadline_at).require(),
    }
    try:
        for ask in questions.values():
            with pytest.raises(errors.CredentialsRejected, match="renew the credentials"):
                ask(backend.provider)
    finally:
        backend.sim.credentials(bad=[])


def test_a_preempted_vm_that_still_shows_is_a_notice(backend: OnCloudsim) -> None:
    backend.sim.settings(shutdown_seconds=60.0)
    vm = contract.launch(backend, market=Market.SPOT)
    foreign = contract.launch(backend, owner(installation="another-installation"), market=Market.SPOT)
    contract.await_state(backend, vm.id, VmState.RUNNING)
    contract.await_state(backend, foreign.id, VmState.RUNNING)
    for one in (vm, foreign):
        backend.interrupt(one.id, 0)
    (notice,) = backend.provider.interruptions(frozenset({backend.region}), INSTALLATION)
    assert (notice.vm_id, notice.action) == (vm.id, "terminate")
    assert notice.deadline_at == notice.notice_at + timedelta(seconds=30)
    (listed,) = contract.listed(backend)
    for shown in (listed, contract.look(backend, vm.id)):
        assert (shown.state, shown.interrupted) == (VmState.ENDING, True)


def test_a_spot_vm_that_somebody_deletes_is_not_interrupted_while_it_ends(backend: OnCloudsim) -> None:
    backend.sim.settings(shutdown_seconds=60.0)
    vm = contract.launch(backend, market=Market.SPOT)
    backend.provider.terminate(backend.region, [vm.id])
    (listed,) = contract.listed(backend)
    assert (listed.state, listed.interrupted) == (VmState.ENDING, False)


def test_a_new_vm_of_the_same_name_is_another_one(backend: OnCloudsim) -> None:
    params = backend.provider.plan(contract.wish(backend))
    first = backend.provider.launch(backend.region, params)
    backend.provider.terminate(backend.region, [first.id])
    contract.await_state(backend, first.id, VmState.GONE)
    second = backend.provider.launch(backend.region, params | {"again": 1})
    assert first.id.split(":")[:2] == second.id.split(":")[:2]
    assert first.id != second.id
    assert contract.look(backend, first.id).state is VmState.GONE
    backend.provider.terminate(backend.region, [first.id])
    with pytest.raises(errors.NotFound):
        backend.provider.reboot(backend.region, [first.id]).require()
    assert list(backend.alive()) == [second.id]


def test_the_labels_of_disks_are_read_for_many_at_once(backend: OnCloudsim) -> None:
    vm_ids = [contract.launch(backend, owner(n=n)).id for n in (1, 2, 3)]
    before = backend.sim.calls(**GCP)
    deadline = datetime(2026, 11, 25, tzinfo=UTC)
    assert set(backend.provider.set_deadline(backend.region, vm_ids, deadline).done) == set(vm_ids)
    made = backend.sim.calls(**GCP)
    assert {what: made[what] - before.get(what, 0) for what in made if "isks" in what} == {
        "disks.list": 1,
        "disks.setLabels": 3,
    }
    disks = [one for one in backend.sim.resources(**GCP) if one["kind"] == "volume"]
    assert {one["tags"]["gpulease-deadline"] for one in disks} == {str(int(deadline.timestamp()))}


def test_disks_of_a_zone_out_of_reach_keep_no_vm_from_its_deadline(backend: OnCloudsim) -> None:
    vm = contract.launch(backend)
    backend.sim.fault("disks.list", "error", times=None, **GCP)
    result = backend.provider.set_deadline(backend.region, [vm.id], datetime(2026, 11, 25, tzinfo=UTC))
    assert list(result.done) == [vm.id]
    assert len(result.refused) == 1


def test_a_zone_out_of_reach_is_told_by_the_list_and_believed_by_nobody(backend: OnCloudsim) -> None:
    there = contract.launch(backend, owner(n=2), zone=backend.other_zone)
    fault: dict[str, Any] = {"region": backend.zone, "times": None, **GCP}
    backend.sim.fault("instances.aggregatedList", "error", **fault)
    backend.sim.fault("disks.aggregatedList", "error", **fault)
    (page,) = backend.provider.list(frozenset({backend.region}), INSTALLATION)
    assert page.unreachable == {backend.zone}
    assert [vm.id for vm in page.vms] == [there.id]
    left = backend.provider.leftovers(backend.region, INSTALLATION, None)
    assert left.unreachable == {backend.zone}
    assert [one.tags["gpulease-attempt"] for one in left.resources] == ["2"]
    with pytest.raises(errors.OutcomeUnknown, match=backend.zone):
        backend.provider.find(backend.region, "f" * 64, owner())


def test_a_zone_out_of_reach_is_one_of_those_that_a_listing_of_several_regions_does_not_tell_of(
    backend: OnCloudsim,
) -> None:
    backend.plant(1, owner().as_tags())
    backend.plant_elsewhere(owner().as_tags())
    backend.sim.fault("instances.aggregatedList", "error", region=backend.zone, **GCP)
    (page,) = backend.provider.list(frozenset({backend.region, backend.other_region}), INSTALLATION)
    assert page.unreachable == {backend.zone}
    assert [vm.region for vm in page.vms] == [backend.other_region]


def test_a_zone_of_another_region_out_of_reach_changes_nothing(backend: OnCloudsim) -> None:
    vm = contract.launch(backend)
    backend.sim.fault("instances.aggregatedList", "error", region="europe-west4", **GCP)
    (page,) = backend.provider.list(frozenset({backend.region}), INSTALLATION)
    assert not page.unreachable
    assert [one.id for one in page.vms] == [vm.id]


def test_a_refusal_after_a_lost_answer_leaves_the_rules_to_the_vm_that_was_made(backend: OnCloudsim) -> None:
    params = backend.provider.plan(contract.wish(backend, allowed_cidrs=contract.NETWORKS))
    backend.lose_next_launch_reply()
    with pytest.raises(errors.OutcomeUnknown):
        backend.provider.launch(backend.region, params)
    backend.sim.fault("instances.insert", "error", code="quotaExceeded", **GCP)
    with pytest.raises(errors.ProviderQuotaExceeded):
        backend.provider.launch(backend.region, params)
    (vm_id,) = backend.alive()
    assert sorted(backend.firewalls(vm_id)) == [vm_id.split(":")[1] + suffix for suffix in ("", "-v6")]


def test_a_rule_of_that_name_that_is_not_ours_is_never_used(backend: OnCloudsim) -> None:
    other = backend.provider.plan(contract.wish(backend, owner(n=2), allowed_cidrs=contract.NETWORKS))
    params = backend.provider.plan(contract.wish(backend, allowed_cidrs=contract.NETWORKS))
    name = params["instance"]["name"]
    backend.provider.launch(backend.region, other | {"firewalls": [other["firewalls"][0] | {"name": name}]})
    with pytest.raises(errors.OutcomeUnknown, match="not ours"):
        backend.provider.launch(backend.region, params)
    assert len(backend.alive()) == 1


def test_an_operation_still_at_work_is_a_vm_to_come(backend: OnCloudsim) -> None:
    backend.sim.settings(list_lag_seconds=60.0, boot_seconds=30.0)
    vm = contract.launch(backend)
    assert contract.listed(backend) == []
    assert contract.look(backend, vm.id).state is VmState.PENDING
    found = backend.provider.find(backend.region, contract.wish(backend).token, owner())
    assert found is not None
    assert found.id == vm.id


# --- inserts that fail -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", ["RESOURCE_NOT_FOUND", "INTERNAL_ERROR"])
def test_the_vm_of_a_failed_insert_is_kept_when_it_exists(backend: OnCloudsim, code: str) -> None:
    params = backend.provider.plan(contract.wish(backend, allowed_cidrs=contract.NETWORKS))
    backend.sim.fault("instances.insert", "fail_after", code=code, **GCP)
    vm = backend.provider.launch(backend.region, params)
    assert [vm.id] == list(backend.alive())
    assert backend.firewalls(vm.id)
    again = backend.provider.launch(backend.region, params)
    assert (again.id, len(backend.alive())) == (vm.id, 1)
    assert contract.look(backend, vm.id).refusal is None
    found = backend.provider.find(backend.region, contract.wish(backend).token, owner())
    assert found is not None
    assert (found.id, found.refusal) == (vm.id, None)


@pytest.mark.parametrize("code", ["RESOURCE_NOT_FOUND", "INTERNAL_ERROR"])
def test_a_failed_insert_without_a_vm_is_want_of_capacity(backend: OnCloudsim, code: str) -> None:
    backend.sim.fault("instances.insert", "error", code=code, **GCP)
    with pytest.raises(errors.InsufficientCapacity, match=code):
        contract.launch(backend)
    assert backend.sim.calls(**GCP)["instances.get"] == 1


def test_a_failed_insert_whose_vm_cannot_be_looked_up_has_an_unknown_outcome(backend: OnCloudsim) -> None:
    params = backend.provider.plan(contract.wish(backend))
    backend.sim.fault("instances.insert", "fail_after", **GCP)
    backend.sim.fault("instances.get", "error", **GCP)
    with pytest.raises(errors.OutcomeUnknown, match="cannot be looked up"):
        backend.provider.launch(backend.region, params)
    assert [backend.provider.launch(backend.region, params).id] == list(backend.alive())


def test_vms_of_a_batch_whose_inserts_failed_are_kept_when_they_exist(backend: OnCloudsim) -> None:
    params = contract.batches.planned(backend)
    backend.sim.fault("instances.bulkInsert", "fail_after", **GCP)
    batch = backend.provider.launch_batch(backend.region, params)
    assert sorted(vm.id for vm in batch.vms.values()) == sorted(backend.alive())
    assert batch.missing == {}
    found = backend.provider.find_batch(backend.region, params)
    assert {slot: vm.id for slot, vm in found.items()} == {slot: vm.id for slot, vm in batch.vms.items()}


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", errors.InsufficientCapacity),
        ("QUOTA_EXCEEDED", errors.ProviderQuotaExceeded),
        ("VM_MIN_COUNT_NOT_REACHED", errors.InsufficientCapacity),
        ("RESOURCE_NOT_FOUND", errors.InsufficientCapacity),
    ],
)
def test_a_batch_that_fails_whole_says_why(backend: OnCloudsim, code: str, kind: type[errors.ProviderError]) -> None:
    params = contract.batches.planned(backend)
    backend.sim.fault("instances.bulkInsert", "error", code=code, **GCP)
    for _ in range(2):
        with pytest.raises(kind, match=code) as caught:
            backend.provider.launch_batch(backend.region, params)
        assert type(caught.value) is kind
    assert not backend.alive()


def test_operations_that_do_not_show_yet_are_an_unknown_outcome_of_a_batch(backend: OnCloudsim) -> None:
    backend.sim.settings(operation_lag_seconds=60.0)
    params = contract.batches.planned(backend)
    with pytest.raises(errors.OutcomeUnknown, match="shows none"):
        backend.provider.launch_batch(backend.region, params)
    backend.sim.settings(operation_lag_seconds=0.0)
    batch = backend.provider.launch_batch(backend.region, params)
    assert sorted(vm.id for vm in batch.vms.values()) == sorted(backend.alive())


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("HTTP 403", errors.CredentialsRejected),
        ("HTTP 502", errors.OutcomeUnknown),
        ("HTTP 503", errors.OutcomeUnknown),
    ],
)
def test_an_answer_of_a_front_end_counts_by_its_status(
    backend: OnCloudsim, code: str, kind: type[errors.ProviderError]
) -> None:
    backend.sim.fault("instances.insert", "error", code=code, **GCP)
    with pytest.raises(kind) as caught:
        contract.launch(backend)
    assert type(caught.value) is kind


def test_the_quota_over_all_regions_is_a_quota(backend: OnCloudsim) -> None:
    backend.sim.quota("GPUS_ALL_REGIONS", 0, **GCP)
    with pytest.raises(errors.ProviderQuotaExceeded, match="GPUS_ALL_REGIONS"):
        contract.launch(backend)
