"""VPC firewall rules of one attempt that asks for them: which networks may reach port 22 of its VM.

They are made before the VM, under names derived from its token, and apply to the network tag that only this VM has. Google
lets a rule hold either IPv4 or IPv6 networks, so there are two when both are asked for. A rule has no labels: its owner stands
in its description. It costs nothing; it is removed as a leftover.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from ipaddress import ip_network
from typing import Any

from workers.providers.errors import NotFound, OutcomeUnknown, ProviderError, Refused, TokenConflict
from workers.providers.gcp import operations
from workers.providers.gcp.clients import GcpClients
from workers.providers.gcp.errors import fitting
from workers.providers.gcp.sdk import Firewall, FirewallsClient, InstancesClient
from workers.providers.types import LaunchSpec, Params

PREFIX = "gpulease-"
_SSH = "22"
_SUFFIX = {4: "", 6: "-v6"}


def plan(spec: LaunchSpec, vm_name: str, network: str) -> list[Params]:
    """The rules' bodies, none when the spec names no networks."""
    networks = list(dict.fromkeys(map(ip_network, spec.allowed_cidrs)))
    families = {version: [str(one) for one in networks if one.version == version] for version in _SUFFIX}
    return [
        {
            "name": vm_name + _SUFFIX[version],
            "description": json.dumps(spec.owner.as_tags(), sort_keys=True),
            "network": network,
            "direction": "INGRESS",
            "sourceRanges": ranges,
            "targetTags": [vm_name],
            "allowed": [{"IPProtocol": "tcp", "ports": [_SSH]}],
        }
        for version, ranges in families.items()
        if ranges
    ]


@contextmanager
def ensure_firewall(clients: GcpClients, zone: str, rules: Mapping[str, Mapping[str, Any]]) -> Iterator[None]:
    """Makes the rules, given by request id. When the block is refused they are withdrawn: a refusal leaves nothing behind."""
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
    """Only while no VM shows: an earlier send may have made one, and Google would take the rules from under it."""
    for rule in rules:
        try:
            clients.ask(clients.of(InstancesClient).get, zone=zone, instance=rule.target_tags[0])
        except NotFound:
            remove(clients, rule.name)


def _body(rule: Mapping[str, Any]) -> Firewall:
    with fitting():
        body: Firewall = Firewall.from_json(json.dumps(rule))
        return body


def _make(clients: GcpClients, rule: Firewall, request_id: str) -> None:
    try:
        operations.accepted(
            clients.ask(clients.of(FirewallsClient).insert_unary, firewall_resource=rule, request_id=request_id)
        )
    except TokenConflict:
        _check(clients, rule)


def _check(clients: GcpClients, rule: Firewall) -> None:
    """An earlier send made it. A rule of that name with another owner is not ours and never used."""
    found = clients.ask(clients.of(FirewallsClient).get, firewall=rule.name)
    if found.description != rule.description:
        raise OutcomeUnknown(f"firewall rule {rule.name} exists and is not ours", code="alreadyExists")


def remove(clients: GcpClients, name: str) -> None:
    """Removes a rule; one that is gone is success."""
    with suppress(NotFound):
        clients.ask(clients.of(FirewallsClient).delete_unary, firewall=name)


def every(clients: GcpClients) -> Iterator[Firewall]:
    """All rules of ours, those of other installations included."""
    for page in clients.pages(clients.of(FirewallsClient).list, filter=f'name eq "{PREFIX}[0-9a-f]+(-v6)?"'):
        yield from page.items


def owner_of(rule: Firewall) -> dict[str, str]:
    """The tags in a rule's description; none for what did not come from the protocol."""
    try:
        found = json.loads(rule.description)
    except ValueError:
        return {}
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else {}
