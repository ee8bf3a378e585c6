"""Tags in EC2's form, kept inside what EC2 accepts.

Limits (EC2 user guide, "Tag your Amazon EC2 resources"): 50 tags a resource, 128 characters a key, 256 a value.
Instance metadata serves a tag only when its key has no slash and no space; a key outside that fails the launch.
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from app.domain.tags import INSTALLATION, NAME, OwnerTags, batch_tags, volume_tags
from app.settings import AccountSettings
from app.settings.account_tags import TagRules
from workers.providers.common.tags import (
    combine,
    escaped,
    group_tag,
    label_key,
    of_account,
    shared_tag,
    unescaped,
    with_labels,
)
from workers.providers.types import DiskSpec, LaunchSpec

if TYPE_CHECKING:
    from mypy_boto3_ec2.type_defs import FilterTypeDef

_NOT_IN_KEY = re.compile(r"[^\w.:=+@-]", re.ASCII)
_NOT_IN_VALUE = re.compile(r"[^\w .:/=+@-]")
_NOT_SERVED = frozenset({"", ".", "..", "_index"})
"""Names that the instance metadata keep for themselves (EC2 API reference, `InstanceMetadataTags`)."""
_MOST_TAGS = 50
_OF_SLOT = 3
"""Tags of `of_slot` that `of_batch` does not contain: lease, attempt and name."""
_LONGEST_KEY = 128
_LONGEST_VALUE = 256


def _key(text: str) -> str:
    key = _NOT_IN_KEY.sub("_", text)[:_LONGEST_KEY]
    return f"x{key}"[:_LONGEST_KEY] if key in _NOT_SERVED or key.lower().startswith("aws:") else key


def _value(text: str) -> str:
    return _NOT_IN_VALUE.sub("_", text)[:_LONGEST_VALUE]


def _accepts(character: str) -> bool:
    return _NOT_IN_VALUE.match(character) is None


RULES = TagRules(
    key=_key,
    value=_value,
    requirement="at most 128 letters, digits and _.:=+@- in a key that does not begin with aws:, and at most 256 letters,"
    " digits, spaces and _.:/=+@- in a value",
)


def of(spec: LaunchSpec, account: AccountSettings) -> dict[str, str]:
    """Name and owner, the account's own tags, and the tenant's labels under their prefix.

    `of_vm` reads labels back as they were. A label whose key is longer than a tag's key gets no tag.
    """
    return _combined({NAME: _value(spec.name), **spec.owner.as_tags()}, spec, account, _MOST_TAGS)


def of_batch(spec: LaunchSpec, account: AccountSettings, batch_id: str) -> dict[str, str]:
    """The tags that the VMs of a batch share. They leave room for those of `of_slot`."""
    return _combined(batch_tags(spec.owner, batch_id), spec, account, _MOST_TAGS - _OF_SLOT)


def of_shared(spec: LaunchSpec, account: AccountSettings) -> dict[str, str]:
    """The tags of what the members of a group share: the group, the member that created it, and the account's own."""
    ours = {**spec.owner.as_tags(), **group_tag(spec), **shared_tag(spec)}
    return combine([ours, *of_account(spec, account, RULES)], _MOST_TAGS)


def of_installation(spec: LaunchSpec, account: AccountSettings) -> dict[str, str]:
    """The tags of what all VMs of the installation share: it belongs to no lease and no tenant."""
    return combine([{INSTALLATION: spec.owner.installation}, account.tags], _MOST_TAGS)


def of_volume(new: DiskSpec, account: AccountSettings) -> dict[str, str]:
    """The tags of a disk that outlives VMs."""
    ours = {NAME: _value(new.name), **volume_tags(new.installation, new.tenant_id, new.volume_id)}
    return combine([ours, account.tags], _MOST_TAGS)


def of_slot(owner: OwnerTags, name: str | None) -> dict[str, str]:
    """The tags that a VM of a batch gets after its launch."""
    return {**owner.as_tags(), **({NAME: _value(name)} if name is not None else {})}


def _combined(ours: Mapping[str, str], spec: LaunchSpec, account: AccountSettings, most: int) -> dict[str, str]:
    ours = {**ours, **group_tag(spec)}
    labels = {label_key(key): escaped(value, _accepts, _LONGEST_VALUE) for key, value in sorted(spec.labels.items())}
    labels = {key: value for key, value in labels.items() if key == _key(key)}
    return combine([ours, *of_account(spec, account, RULES), labels], most)


def to_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """As EC2 takes them."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def to_dict(tags: list[dict[str, str]] | None) -> dict[str, str]:
    """As EC2 gives them; None (no tags) is empty."""
    return {tag["Key"]: tag["Value"] for tag in tags or ()}


def of_vm(tags: list[dict[str, str]] | None) -> dict[str, str]:
    """The tags of a VM, with the tenant's labels as they were."""
    return with_labels(to_dict(tags), unescaped)


def tagged(key: str, *values: str) -> "FilterTypeDef":
    """A filter on one tag; at most 200 values."""
    return {"Name": f"tag:{key}", "Values": list(values)}
