"""VPC firewall rules. Google removes one whatever VM it applies to."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from ipaddress import ip_network

from cloudsim.gce import existing, links, operations, views
from cloudsim.gce.call import Call, Result
from cloudsim.gce.catalog import PROVIDER
from cloudsim.gce.errors import GceError, invalid
from cloudsim.gce.listing import Kind, ListEntry, after, flat
from cloudsim.world import Resource, ResourceKind

KIND = Kind("firewall", "items")
_LONGEST_DESCRIPTION = 2_048


def insert(call: Call) -> Result:
    """Raises GceError alreadyExists for a name that is taken."""
    body = call.body
    name = body.get("name", "")
    if any(rule.spec["name"] == name for rule in _rules(call)):
        raise GceError(
            "alreadyExists", f"The resource 'projects/{call.project}/global/firewalls/{name}' already exists"
        )
    owner = body.get("network", "").partition("projects/")[2].partition("/")[0]
    if owner not in ("", call.project) or not existing.is_network(body.get("network", "")):
        raise invalid("resource.network", f"'{body['network']}'. The network must exist in the rule's own project.")
    if len(body.get("description", "")) > _LONGEST_DESCRIPTION:
        raise invalid("resource.description", f"must be no longer than {_LONGEST_DESCRIPTION} characters.")
    if len({ip_network(source).version for source in body.get("sourceRanges", [])}) > 1:
        raise invalid("resource.sourceRanges", "IPv4 and IPv6 ranges cannot stand in one rule.")
    number = str((1 << 60) | call.world.rng.getrandbits(60))
    rule = Resource(
        kind=ResourceKind.SECURITY_GROUP,
        provider=PROVIDER,
        account=call.project,
        region="",
        zone="",
        id=number,
        tags={},
        created_at=call.now,
        spec={"direction": "INGRESS", "priority": 1000, "disabled": False, **body},
    )
    call.world.add_resource(rule)
    return operations.at_once(call, "insert", links.everywhere(call.project, "firewalls", name), number)


def get(call: Call) -> Result:
    """One rule by name or number."""
    return views.firewall(_rule(call))


def list_(call: Call) -> Result:
    """One page of rules."""
    return flat(call, KIND, _listed(call), "global/firewalls")


def _listed(call: Call) -> Iterator[ListEntry]:
    start = after(call)
    for position, rule in enumerate(_rules(call), start=1):
        if position > start:
            yield ListEntry(position, "", partial(views.firewall, rule))


def delete(call: Call) -> Result:
    """In use or not."""
    rule = _rule(call)
    call.world.remove_resource(rule.id)
    return operations.at_once(call, "delete", links.everywhere(call.project, "firewalls", rule.spec["name"]), rule.id)


def _rule(call: Call) -> Resource:
    return call.resource(ResourceKind.SECURITY_GROUP, call.path["firewall"])


def _rules(call: Call) -> Iterator[Resource]:
    return call.world.resources_of(PROVIDER, call.project, "", ResourceKind.SECURITY_GROUP)
