"""What VMs share at Compute Engine. Members of a group: firewall rules that open them to each other, and a compact placement policy.

All VMs share a firewall rule that refuses traffic between them. It stays.

Every launch creates what its VM shares, from parameters stored with those of the VM, under one name derived from the group's id. The
name is also the network tag of the members. A repeat and the other members find both. Both cost nothing. gpulease removes
them as leftover resources when no VM has the tag. A refused launch leaves them: other members may be about to use them.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import structlog

from app.domain import tags
from app.domain.offerings import Market
from workers.providers.common.recent import MinuteCache
from workers.providers.common.tags import group_tag, shared_tag
from workers.providers.errors import (
    CredentialsRejected,
    InvalidSpec,
    NotFound,
    NotOffered,
    NotReady,
    OutcomeUnknown,
    Refused,
    TokenConflict,
)
from workers.providers.gcp import firewall, operations
from workers.providers.gcp.catalogue import Machine
from workers.providers.gcp.clients import GcpClients
from workers.providers.gcp.errors import fitting
from workers.providers.gcp.sdk import Firewall, FirewallsClient, ResourcePoliciesClient, ResourcePolicy
from workers.providers.gcp.settings import GcpAccount
from workers.providers.types import LaunchSpec, Params

log = structlog.get_logger(__name__)

PART, RULE, GPU_RULES, POLICY = "group", "rule", "gpu_rules", "policy"
SEPARATION = "separation"
"""Keys in the stored parameters. The rules of `SEPARATION` are those of every VM, the others those of a group."""

_CLUSTER = "cluster"
_NO_COMPACT_PLACEMENT = ("n1-",)
"""Beginnings of the machine types that Google places without a policy (Compute Engine guide, "Compact placement policies")."""
_MISSING = frozenset({"notFound", "invalid"})
_READY = "READY"
_NOT_READY_SECONDS = 1.0


def shared_name(spec: LaunchSpec) -> str | None:
    """The network tag of the group's members, and the name of what they share. None for a lease of its own."""
    return None if spec.group is None else firewall.PREFIX + spec.group.group_id.replace("_", "-")


def policies(spec: LaunchSpec, account: GcpAccount, machine: Machine) -> dict[str, list[str]]:
    """{"resourcePolicies": …} of the VM. A reservation places its VMs itself.

    Raises NotOffered for a type that Google does not place close together.
    """
    group = spec.group
    if group is None or group.placement != _CLUSTER or spec.market is Market.RESERVED:
        return {}
    if machine.machine_type.startswith(_NO_COMPACT_PLACEMENT):
        message = f"Compute Engine has no compact placement for {machine.machine_type}"
        raise NotOffered(message, code="CompactPlacementUnsupported")
    return {
        "resourcePolicies": [f"projects/{account.project}/regions/{spec.region}/resourcePolicies/{shared_name(spec)}"]
    }


def plan(spec: LaunchSpec, account: GcpAccount, networks: Sequence[str], *, compact: bool) -> Params:
    """{"separation": …}, and {"group": …} for the member of a group. The descriptions say whose both are, as `firewall` does.

    `networks`: that of the VM's address, then those of its GPUs. Each gets rules of its own.
    """
    separation = {SEPARATION: firewall.separation(networks)}
    name = shared_name(spec)
    if name is None or spec.group is None:
        return separation
    marks = {**group_tag(spec), **shared_tag(spec), **firewall.shared_project(account)}
    description = json.dumps({**spec.owner.as_tags(), **marks}, sort_keys=True)
    rule, *gpu_rules = (
        {
            "name": f"{name}-n{number}" if number else name,
            "description": description,
            "network": network,
            "direction": "INGRESS",
            "priority": firewall.ALLOW,
            "sourceTags": [name],
            "targetTags": [name],
            "allowed": [{"IPProtocol": "all"}],
        }
        for number, network in enumerate(networks)
    )
    policy = {"name": name, "description": description, "groupPlacementPolicy": {"collocation": "COLLOCATED"}}
    more = {**({GPU_RULES: gpu_rules} if gpu_rules else {}), **({POLICY: policy} if compact else {})}
    return {**separation, PART: {RULE: rule, **more}}


class GcpGroupResources:
    """Creates what VMs share. Remembers for a minute that it exists, so that many VMs cost few calls."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._known: MinuteCache[bool] = MinuteCache(monotonic)

    @contextmanager
    def ensure(self, clients: GcpClients, region: str, params: Params) -> Iterator[None]:
        """Creates what the stored parameters of a launch name: the rules that separate VMs, and what a group shares.

        Raises NotReady when Google does not know what was created: the repeated launch creates it again. Raises
        ProviderError.
        """
        for rule in params[SEPARATION]:
            if not self._known.get(rule["name"]):
                _make_separation(clients, rule)
                self._known.put(rule["name"], value=True)
        group: Params | None = params.get(PART)
        if group is None:
            yield
            return
        key = (
            f"{region}/{group[RULE]['network']}/{group[RULE]['name']}/{len(group.get(GPU_RULES, ()))}/{POLICY in group}"
        )
        if not self._known.get(key):
            _make(clients, region, group)
            self._known.put(key, value=True)
        try:
            yield
        except Refused as error:
            if error.code not in _MISSING or f"resourcePolicies/{group[RULE]['name']}" not in error.message:
                raise
            self._known.forget(key)
            raise NotReady(error.message, code=error.code, retry_after=_NOT_READY_SECONDS) from None


def _make_separation(clients: GcpClients, parameters: Params) -> None:
    """Creates the rule that denies traffic between VMs. Raises InvalidSpec when somebody has changed it: no VM starts then."""
    with fitting():
        rule: Any = Firewall.from_json(json.dumps(parameters))
    existing = _make_rule(clients, rule)
    if existing is not None and (existing.disabled or not existing.denied or existing.priority > rule.priority):
        message = f"firewall rule {rule.name} does not separate VMs any more: delete it, and gpulease creates it again"
        raise InvalidSpec(message, code="SeparationChanged")


def _make(clients: GcpClients, region: str, group: Params) -> None:
    with fitting():
        rules: list[Any] = [Firewall.from_json(json.dumps(rule)) for rule in (group[RULE], *group.get(GPU_RULES, ()))]
        policy: Any = ResourcePolicy.from_json(json.dumps(group[POLICY])) if POLICY in group else None
    if policy is not None:
        _make_policy(clients, region, policy)
    for rule in rules:
        _make_rule(clients, rule)


def _make_rule(clients: GcpClients, rule: Firewall) -> Firewall | None:
    """Creates a rule, or returns the one that exists.

    Without a request id: Google would not create a removed rule again for the same one.
    """
    client, project = clients.of(FirewallsClient), firewall.project_of(rule)
    try:
        operations.accepted(clients.ask(client.insert_unary, project=project, firewall_resource=rule))
    except TokenConflict:
        existing: Firewall = clients.ask(client.get, project=project, firewall=rule.name)
        _require_same_group(existing.description, rule.description, rule.name)
        return existing
    return None


def _make_policy(clients: GcpClients, region: str, policy: ResourcePolicy) -> None:
    client = clients.of(ResourcePoliciesClient)
    with suppress(TokenConflict):
        operations.accepted(clients.ask(client.insert_unary, region=region, resource_policy_resource=policy))
    try:
        existing = clients.ask(client.get, region=region, resource_policy=policy.name)
    except NotFound as error:
        raise NotReady(error.message, code=error.code, retry_after=_NOT_READY_SECONDS) from None
    _require_same_group(existing.description, policy.description, policy.name)
    if existing.status != _READY:
        message = f"the placement policy {policy.name} is {existing.status}"
        raise NotReady(message, code="ResourcePolicyNotReady", retry_after=_NOT_READY_SECONDS)


def _require_same_group(theirs: str, ours: str, name: str) -> None:
    """What has the name and belongs to another installation or group is never used."""
    their_owner, our_owner = firewall.described_owner(theirs), firewall.described_owner(ours)
    if any(their_owner.get(key) != our_owner.get(key) for key in (tags.INSTALLATION, tags.GROUP)):
        raise OutcomeUnknown(f"{name} exists and is not ours", code="alreadyExists")


def placement_policies(clients: GcpClients, region: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Name and owner of the groups' placement policies in a region. Without the right to read them there are none of ours."""
    name_filter = f'name eq "{firewall.PREFIX}group-[0-9a-z]+"'
    try:
        for page in clients.pages(clients.of(ResourcePoliciesClient).list, region=region, filter=name_filter):
            for policy in page.items:
                yield policy.name, firewall.described_owner(policy.description)
    except CredentialsRejected as error:
        if error.code != "forbidden":
            raise
        log.info("placement policies not read", region=region, error=error.message)


def remove_policy(clients: GcpClients, region: str, name: str) -> None:
    """Deletes a placement policy; a missing one is success. Raises OutcomeUnknown while a VM uses it."""
    with suppress(NotFound):
        client: Any = clients.of(ResourcePoliciesClient)
        clients.ask(client.delete_unary, region=region, resource_policy=name)
