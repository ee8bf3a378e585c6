"""VPC firewall rules: those of one attempt or batch that names allowed networks, and the one that separates all VMs.

The first ones limit which networks reach the SSH port of a VM.

The adapter creates the rules before the VM, under names derived from its token. The rules apply to the network tag that
only this VM has. In Google Cloud a rule contains either IPv4 or IPv6 networks, so a spec with both gets two rules. A
rule has no labels, so its description contains its owner. A rule costs nothing. gpulease removes the rules as leftover
resources.

In a shared VPC, the rules are in the host project. Several accounts may share it, so the description of such a rule also
names the project of its VM.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from ipaddress import ip_network
from typing import Any, cast

from app.domain.tags import BATCH
from workers.providers.errors import NotFound, OutcomeUnknown, ProviderError, Refused, TokenConflict
from workers.providers.gcp import operations, resource_tags
from workers.providers.gcp.clients import GcpClients
from workers.providers.gcp.errors import fitting
from workers.providers.gcp.sdk import Firewall, FirewallsClient, InstancesClient
from workers.providers.gcp.settings import GcpAccount
from workers.providers.types import LaunchSpec, Params

PREFIX = "gpulease-"
_VM_PROJECT = "gpulease-project"
"""Key in the description of a rule in a host project: the project of the VM."""
_SUFFIX = {4: "", 6: "-v6"}

VM_TAG = "gpulease-vm"
"""The network tag of every VM of any installation of gpulease."""
ALLOW, SEPARATE = 900, 950
"""Priorities of rules; lower numbers come first. Rules that nobody gave a priority have 1,000."""


def separation(networks: Iterable[str]) -> list[Params]:
    """The bodies of the rules that refuse traffic between VMs of gpulease, one for each network.

    The rules of a lease and of a group come before them. They name no lease and no installation, so all accounts and
    installations that share a network use the same one.
    """
    return [
        {
            "name": f"{PREFIX}separate-{hashlib.sha256(network.encode()).hexdigest()[:20]}",
            "description": "gpulease: its VMs do not reach each other, unless a rule with a lower number lets them",
            "network": network,
            "direction": "INGRESS",
            "priority": SEPARATE,
            "sourceTags": [VM_TAG],
            "targetTags": [VM_TAG],
            "denied": [{"IPProtocol": "all"}],
        }
        for network in networks
    ]


def plan(
    spec: LaunchSpec, account: GcpAccount, vm_name: str, network: str, batch: Mapping[str, str] | None = None
) -> list[Params]:
    """The bodies of the rules; none when the spec names no networks.

    `vm_name`: the network tag of the VMs. `batch`: the tag of their batch, as their label shows it.
    """
    shared = shared_project(account)
    networks = list(dict.fromkeys(map(ip_network, spec.allowed_cidrs)))
    families = {version: [str(network) for network in networks if network.version == version] for version in _SUFFIX}
    return [
        {
            "name": vm_name + _SUFFIX[version],
            "description": json.dumps({**spec.owner.as_tags(), **shared, **(batch or {})}, sort_keys=True),
            "network": network,
            "direction": "INGRESS",
            "priority": ALLOW,
            "sourceRanges": ranges,
            "targetTags": [vm_name],
            "allowed": [{"IPProtocol": "tcp", "ports": [str(spec.ssh_port)]}],
        }
        for version, ranges in families.items()
        if ranges
    ]


def shared_project(account: GcpAccount) -> dict[str, str]:
    """What the description of a rule in a shared VPC says besides its owner."""
    return {_VM_PROJECT: account.project} if account.host_project is not None else {}


@contextmanager
def ensure_firewall(clients: GcpClients, zone: str, rules: Mapping[str, Mapping[str, Any]]) -> Iterator[None]:
    """Creates the rules, given by request id, before the block launches the VM.

    If Google refuses the block, the rules are deleted, so that a refusal leaves nothing behind. Raises ProviderError.
    """
    bodies = {request_id: _body(rule) for request_id, rule in rules.items()}
    try:
        for request_id, rule in bodies.items():
            _make(clients, rule, request_id)
        yield
    except Refused:
        with suppress(ProviderError):
            _withdraw(clients, zone, bodies.values())
        raise


def _withdraw(clients: GcpClients, zone: str, rules: Iterable[Firewall]) -> None:
    """Deletes the rules only if Google shows no VM.

    An earlier send may have created the VM, which would then lose its rules.
    """
    for rule in rules:
        if not _is_used(clients, zone, rule):
            remove(clients, _id(clients, project_of(rule), rule.name))


def _is_used(clients: GcpClients, zone: str, rule: Firewall) -> bool:
    batch = owner_of(rule).get(BATCH)
    if batch is not None:
        label = resource_tags.having(BATCH, batch)
        return any(page.items for page in clients.pages(clients.of(InstancesClient).list, zone=zone, filter=label))
    try:
        clients.ask(clients.of(InstancesClient).get, zone=zone, instance=rule.target_tags[0])
    except NotFound:
        return False
    return True


def _body(rule: Mapping[str, Any]) -> Firewall:
    with fitting():
        return cast(Firewall, Firewall.from_json(json.dumps(rule)))


def _make(clients: GcpClients, rule: Firewall, request_id: str) -> None:
    insert = clients.of(FirewallsClient).insert_unary
    try:
        operations.accepted(
            clients.ask(insert, project=project_of(rule), firewall_resource=rule, request_id=request_id)
        )
    except TokenConflict:
        _check(clients, rule)


def _check(clients: GcpClients, rule: Firewall) -> None:
    """Accepts a rule that an earlier send created. A rule of that name with another owner is never used."""
    existing = clients.ask(clients.of(FirewallsClient).get, project=project_of(rule), firewall=rule.name)
    if existing.description != rule.description:
        raise OutcomeUnknown(f"firewall rule {rule.name} exists and is not ours", code="alreadyExists")


def project_of(rule: Firewall) -> str:
    """The project of the network that the rule protects. A rule is always in that project."""
    return rule.network.partition("projects/")[2].partition("/")[0]


def _id(clients: GcpClients, project: str, name: str) -> str:
    """The id of a rule among the leftovers: its name, after the project where that is not the account's own."""
    return name if project == clients.project else f"{project}/{name}"


def remove(clients: GcpClients, rule_id: str) -> None:
    """Deletes a rule; a missing rule is success."""
    project, _, name = rule_id.rpartition("/")
    with suppress(NotFound):
        clients.ask(clients.of(FirewallsClient).delete_unary, project=project or clients.project, firewall=name)


def of_account(clients: GcpClients) -> Iterator[tuple[str, Firewall, dict[str, str]]]:
    """The firewall rules of VMs in this project: id, rule and owner, including those of other installations.

    The account's own project is also searched in a shared VPC: it has the rules from before.
    """
    for project in dict.fromkeys((clients.project, clients.network_project)):
        pages = clients.pages(
            clients.of(FirewallsClient).list,
            project=project,
            filter=f'name eq "{PREFIX}(group-)?[0-9a-z]+(-v6|-n[1-8])?"',
        )
        for rule in (rule for page in pages for rule in page.items):
            owner = owner_of(rule)
            if owner.get(_VM_PROJECT, project) == clients.project:
                yield _id(clients, project, rule.name), rule, owner


def owner_of(rule: Firewall) -> dict[str, str]:
    """The tags in a rule's description; none for a rule that the launch protocol did not create."""
    return described_owner(rule.description)


def described_owner(description: str) -> dict[str, str]:
    """The tags in a description as `plan` makes it; none for any other text."""
    try:
        document = json.loads(description)
    except ValueError:
        return {}
    return {str(key): str(value) for key, value in document.items()} if isinstance(document, dict) else {}
