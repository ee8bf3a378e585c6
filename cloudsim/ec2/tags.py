"""CreateTags, DeleteTags and DescribeTags over everything that can be tagged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from cloudsim.ec2.call import Call, Result
from cloudsim.ec2.errors import AwsError
from cloudsim.ec2.filters import compiled
from cloudsim.ec2.instances import refuse_dry_run, require
from cloudsim.ec2.lookup import named
from cloudsim.ec2.paging import page
from cloudsim.ec2.tag_rules import TAGS_PER_RESOURCE, read_tags
from cloudsim.world import Market, Resource, ResourceKind, Vm

_KINDS = {
    "vol": ResourceKind.VOLUME,
    "eni": ResourceKind.NETWORK_INTERFACE,
    "eipalloc": ResourceKind.ADDRESS,
    "sg": ResourceKind.SECURITY_GROUP,
    "pg": ResourceKind.PLACEMENT_GROUP,
}
_TYPE_NAMES = {
    ResourceKind.VOLUME: "volume",
    ResourceKind.NETWORK_INTERFACE: "network-interface",
    ResourceKind.ADDRESS: "elastic-ip",
    ResourceKind.SECURITY_GROUP: "security-group",
    ResourceKind.PLACEMENT_GROUP: "placement-group",
}
Changes = dict[str, str | None]
"""New value by key, None for a tag to take away."""


@dataclass(frozen=True, slots=True)
class _SpotRequest:
    """The request behind a spot VM; it is stored with the VM."""

    vm: Vm


Taggable = Vm | Resource | _SpotRequest


def _find(call: Call, resource_id: str) -> Taggable:
    prefix = resource_id.partition("-")[0]
    if prefix == "i":
        return require(call, [resource_id])[0]
    if prefix in _KINDS:
        return named(call, _KINDS[prefix], [resource_id])[0]
    if prefix == "sir":
        for vm in call.shelf.after(0):
            if vm.market is Market.SPOT and vm.spec["spot"]["id"] == resource_id:
                return _SpotRequest(vm)
    raise AwsError("InvalidID", f"The ID '{resource_id}' is not valid")


def _tags(thing: Taggable) -> dict[str, str]:
    if isinstance(thing, _SpotRequest):
        tags: dict[str, str] = thing.vm.spec["spot"]["tags"]
        return tags
    return thing.tags


def _apply(call: Call, thing: Taggable, changes: Changes) -> None:
    if isinstance(thing, Vm):
        call.world.retag(thing, changes)
        return
    unchanged = {key: value for key, value in _tags(thing).items() if key not in changes}
    tags = {**unchanged, **{key: value for key, value in changes.items() if value is not None}}
    if isinstance(thing, _SpotRequest):
        thing.vm.spec["spot"]["tags"] = tags
        call.world.touch(thing.vm)
    else:
        thing.tags = tags
        call.world.touch_resource(thing.id)


def create_tags(call: Call) -> Result:
    """Set tags on all named things, or on none."""
    tags = read_tags(call.params["Tags"])
    things = [_find(call, resource_id) for resource_id in call.params["Resources"]]
    for thing in things:
        if len({**_tags(thing), **tags}) > TAGS_PER_RESOURCE:
            raise AwsError("TagLimitExceeded", f"More than {TAGS_PER_RESOURCE} tags specified")
    refuse_dry_run(call)
    for thing in things:
        _apply(call, thing, dict(tags))
    return {}


def delete_tags(call: Call) -> Result:
    """Take tags away: by key, by key and value, or all when none is named."""
    things = [_find(call, resource_id) for resource_id in call.params["Resources"]]
    refuse_dry_run(call)
    for thing in things:
        _apply(call, thing, _removals(_tags(thing), call.params.get("Tags")))
    return {}


def _removals(tags: dict[str, str], named_tags: list[dict[str, str]] | None) -> Changes:
    if not named_tags:
        return dict.fromkeys(tags)
    return {
        tag["Key"]: None for tag in named_tags if tag["Key"] in tags and tag.get("Value") in (None, tags[tag["Key"]])
    }


@dataclass(frozen=True, slots=True)
class _Tag:
    resource_id: str
    resource_type: str
    key: str
    value: str

    @property
    def as_map(self) -> dict[str, str]:
        return {self.key: self.value}


_FIELDS: dict[str, Callable[[_Tag], str | Iterable[str] | None]] = {
    "key": lambda tag: tag.key,
    "resource-id": lambda tag: tag.resource_id,
    "resource-type": lambda tag: tag.resource_type,
    "value": lambda tag: tag.value,
}


def describe_tags(call: Call) -> Result:
    """Every tag of the caller's things in the region."""
    matches = compiled(call.params.get("Filters", []), _FIELDS, lambda tag: tag.as_map)
    page_items, token = page(filter(matches, _all(call)), lambda tag: f"{tag.resource_id}/{tag.key}", call)
    return {
        "Tags": [
            {"ResourceId": tag.resource_id, "ResourceType": tag.resource_type, "Key": tag.key, "Value": tag.value}
            for tag in page_items
        ],
        "NextToken": token,
    }


def _all(call: Call) -> Iterator[_Tag]:
    for vm in call.shelf.after(0):
        if vm.visible_at <= call.now:
            yield from (_Tag(vm.id, "instance", key, value) for key, value in vm.tags.items())
            spot = vm.spec["spot"]
            if vm.market is Market.SPOT:
                tags = spot["tags"].items()
                yield from (_Tag(spot["id"], "spot-instances-request", key, value) for key, value in tags)
    for kind, name in _TYPE_NAMES.items():
        for resource in call.resources(kind):
            yield from (_Tag(resource.id, name, key, value) for key, value in resource.tags.items())
