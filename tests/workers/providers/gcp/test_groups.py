"""What a launch asks Google for when its VM is a member of a group, checked against Google's own description."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from app.domain import tags
from app.domain.offerings import Market
from tests.cloudsim.gce.discovery import faults
from tests.workers.providers.contract.batches import BATCH, SECRET, TOKEN, slots
from tests.workers.providers.gcp.accounts import PROJECT, REGION, account
from tests.workers.providers.gcp.specs import spec
from tests.workers.providers.samples import GROUP, owner
from workers.providers import errors
from workers.providers.gcp import batches, catalogue, firewall, groups, launch
from workers.providers.gcp.sdk import Firewall
from workers.providers.types import Params

ACCOUNT = account("http://127.0.0.1:9", None)
NAME = "gpulease-" + GROUP.group_id.replace("_", "-")
POLICY = f"projects/{PROJECT}/regions/{REGION}/resourcePolicies/{NAME}"


def planned(**changes: Any) -> Params:
    parts: dict[str, Any] = {"group": GROUP, **changes}
    wanted = spec(**parts)
    params = launch.plan(wanted, ACCOUNT, catalogue.load().machines[wanted.instance_type])
    assert list(faults(params["instance"], "Instance")) == []
    assert json.loads(json.dumps(params)) == params
    return params


def test_the_rule_opens_the_members_to_each_other_and_to_nobody_else() -> None:
    params = planned()
    rule = params[groups.PART][groups.RULE]
    assert list(faults(rule, "Firewall")) == []
    assert rule["sourceTags"] == rule["targetTags"] == [NAME]
    assert rule["allowed"] == [{"IPProtocol": "all"}]
    assert "sourceRanges" not in rule
    assert NAME in params["instance"]["tags"]["items"]


def test_a_cluster_is_compact() -> None:
    params = planned()
    policy = params[groups.PART][groups.POLICY]
    assert list(faults(policy, "ResourcePolicy")) == []
    assert policy["groupPlacementPolicy"] == {"collocation": "COLLOCATED"}
    assert params["instance"]["resourcePolicies"] == [POLICY]


def test_the_descriptions_say_whose_both_are() -> None:
    part = planned()[groups.PART]
    for body in (part[groups.RULE], part[groups.POLICY]):
        found = firewall.described_owner(body["description"])
        assert (found[tags.SHARED], tags.attempt_key(found)) == (GROUP.group_id, (owner().lease_id, 1))


@pytest.mark.parametrize("placement", ["any", "same_zone"])
def test_only_a_cluster_has_a_policy(placement: str) -> None:
    params = planned(group=replace(GROUP, placement=placement))
    assert groups.POLICY not in params[groups.PART]
    assert "resourcePolicies" not in params["instance"]


def test_a_lease_of_its_own_makes_nothing_for_a_group() -> None:
    params = planned(group=None)
    assert groups.PART not in params
    assert params["instance"]["tags"]["items"] == [params["instance"]["name"], "gpulease-vm"]


def test_a_reservation_places_its_vms_itself() -> None:
    reserved = {
        "name": "pool",
        "id": "pool",
        "kind": "reservation",
        "region": REGION,
        "zone": f"{REGION}-a",
        "instance_type": "g2-standard-4",
    }
    wanted = spec(group=GROUP, market=Market.RESERVED, reservation="pool")
    of = account("http://127.0.0.1:9", None, reservations=[reserved])
    params = launch.plan(wanted, of, catalogue.load().machines["g2-standard-4"])
    assert groups.POLICY not in params[groups.PART]
    assert "resourcePolicies" not in params["instance"]


def test_a_type_that_google_does_not_place_close_together_is_not_offered_to_a_cluster() -> None:
    machines = catalogue.load().machines
    name, machine = next((one, of) for one, of in machines.items() if of.machine_type.startswith("n1-"))
    with pytest.raises(errors.NotOffered, match="compact placement"):
        launch.plan(spec(instance_type=name, group=GROUP), ACCOUNT, machine)
    launch.plan(spec(instance_type=name, group=replace(GROUP, placement="same_zone")), ACCOUNT, machine)


def test_in_a_batch_all_members_share_rule_and_policy() -> None:
    wanted = spec(group=GROUP, slot_secret=SECRET)
    machine = catalogue.load().machines[wanted.instance_type]
    params = batches.plan(wanted, ACCOUNT, machine, BATCH, TOKEN, slots(3))
    assert list(faults(params["bulk"], "BulkInsertInstanceResource")) == []
    properties = params["bulk"]["instanceProperties"]
    assert properties["resourcePolicies"] == [NAME]
    assert NAME in properties["tags"]["items"]
    assert params[groups.PART] == launch.plan(replace(wanted, owner=slots()[0].owner), ACCOUNT, machine)[groups.PART]


class Clients:
    """Answers like Google with what exists by name; notes the calls."""

    project = PROJECT

    def __init__(self, **answers: Any) -> None:
        self.calls: list[str] = []
        self._answers = answers

    def of(self, kind: type) -> Any:
        return _Service(kind.__name__, self)

    def ask(self, method: Callable[..., Any], **request: Any) -> Any:
        return method(**request)

    def answer(self, call: str) -> Any:
        self.calls.append(call)
        result = self._answers.get(call)
        if isinstance(result, Exception):
            raise result
        return result


class _Service:
    def __init__(self, name: str, clients: Clients) -> None:
        self._name, self._clients = name.removesuffix("Client"), clients

    def __getattr__(self, method: str) -> Any:
        return lambda **_: self._clients.answer(f"{self._name}.{method}")


class Done:
    status, error, http_error_status_code = "DONE", type("Error", (), {"errors": ()}), 0


class Found:
    def __init__(self, body: Params, status: str = "READY", description: str | None = None) -> None:
        self.description, self.status = description or body["description"], status


def ensured(clients: Any, shared: groups.GcpGroupResources, params: Params) -> None:
    with shared.ensure(clients, REGION, params | {groups.SEPARATION: []}):
        pass


def answering(params: Params, **changes: Any) -> Clients:
    part = params[groups.PART]
    made = {"ResourcePolicies.insert_unary": Done(), "Firewalls.insert_unary": Done()}
    return Clients(**{**made, "ResourcePolicies.get": Found(part[groups.POLICY]), **changes})


def test_what_exists_is_made_once_a_minute_for_many_members() -> None:
    clients, now = answering(planned()), [0.0]
    shared = groups.GcpGroupResources(monotonic=lambda: now[0])
    for n in range(3):
        ensured(clients, shared, planned(token=f"{n}" * 64))
    once = ["ResourcePolicies.insert_unary", "ResourcePolicies.get", "Firewalls.insert_unary"]
    assert clients.calls == once
    now[0] = 61.0
    ensured(clients, shared, planned())
    assert clients.calls == once * 2


def test_a_policy_that_is_being_made_lets_the_launch_wait() -> None:
    params = planned()
    for status in ("CREATING", "DELETING"):
        clients = answering(params, **{"ResourcePolicies.get": Found(params[groups.PART][groups.POLICY], status)})
        with pytest.raises(errors.NotReady):
            ensured(clients, groups.GcpGroupResources(), params)


@pytest.mark.parametrize("service", ["ResourcePolicies", "Firewalls"])
def test_what_exists_and_is_not_ours_is_never_used(service: str) -> None:
    params = planned()
    foreign = Found(params[groups.PART][groups.RULE], description="{}")
    taken = errors.TokenConflict("taken", code="alreadyExists")
    clients = answering(params, **{f"{service}.insert_unary": taken, f"{service}.get": foreign})
    with pytest.raises(errors.OutcomeUnknown):
        ensured(clients, groups.GcpGroupResources(), params)


def test_a_policy_that_was_removed_meanwhile_is_made_again_by_the_repeat() -> None:
    params = planned()
    clients: Any = answering(params)
    shared = groups.GcpGroupResources()
    with pytest.raises(errors.NotReady), shared.ensure(clients, REGION, params):
        raise errors.InvalidSpec(f"The resource '{POLICY}' was not found", code="notFound")
    ensured(clients, shared, params)
    assert clients.calls.count("ResourcePolicies.insert_unary") == 2


def test_another_refusal_stays_what_it_is() -> None:
    params = planned()
    clients: Any = answering(params)
    with pytest.raises(errors.InsufficientCapacity), groups.GcpGroupResources().ensure(clients, REGION, params):
        raise errors.InsufficientCapacity("no room", code="stockout")


def separated(clients: Any) -> None:
    with groups.GcpGroupResources().ensure(clients, REGION, planned(group=None)):
        pass


def test_every_network_has_a_rule_that_refuses_traffic_between_vms_before_the_usual_rules() -> None:
    params = planned(allowed_cidrs=("203.0.113.0/24",))
    (rule,) = params[groups.SEPARATION]
    assert (rule["sourceTags"], rule["targetTags"]) == (["gpulease-vm"], ["gpulease-vm"])
    assert rule["denied"] == [{"IPProtocol": "all"}]
    assert list(faults(rule, "Firewall")) == []
    for allowed in (*params["firewalls"], params[groups.PART][groups.RULE]):
        assert allowed["priority"] < rule["priority"] < 1_000


@pytest.mark.parametrize("change", [{"disabled": True}, {"priority": 2_000}, {"denied": []}])
def test_no_vm_starts_behind_a_rule_of_separation_that_somebody_has_changed(change: Any) -> None:
    (rule,) = planned()[groups.SEPARATION]
    for changed in ({}, change):
        existing: Any = Firewall.from_json(json.dumps({**rule, **changed}))
        clients = Clients(**{"Firewalls.insert_unary": errors.TokenConflict("exists"), "Firewalls.get": existing})
        if not changed:
            separated(clients)
        else:
            with pytest.raises(errors.InvalidSpec, match="delete it"):
                separated(clients)
