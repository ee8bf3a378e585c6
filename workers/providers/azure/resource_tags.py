r"""Tags in Azure's form, within Azure's limits.

Limits (Azure docs, "Use tags to organize your Azure resources"): 50 tags a resource, 256 characters a value, none of
`<>%&\?/` in a name. Names that differ only in case are the same. Every kind of resource accepts 128 characters a name.
"""

import re
from collections.abc import Mapping

from app.domain.tags import INSTALLATION, NAME, volume_tags
from app.settings import AccountSettings
from app.settings.account_tags import TagRules
from workers.providers.common.tags import combine, group_tag, label_key, of_account, shared_tag, with_labels
from workers.providers.types import DiskSpec, LaunchSpec

REQUEST = "gpulease-request"
"""The tag with a hash of all other parameters. The same name with other parameters is another request."""
TOKEN = "gpulease-token"  # noqa: S105  the name of a tag
"""The full launch token. A VM's name holds only a part of it. The tag proves nothing: a copy of the tags has it too."""

_NOT_IN_KEY = re.compile(r"[<>%&\\?/\x00-\x1f\x7f]")
_NOT_IN_VALUE = re.compile(r"[\x00-\x1f\x7f]")
_RESERVED = ("azure", "microsoft", "windows")
"""Prefixes that Azure reserves (Resource Manager REST API, "Tags - Create Or Update": the tag's name)."""
_MOST_TAGS = 50
_LONGEST_KEY = 128
_LONGEST_VALUE = 256


def _key(text: str) -> str:
    key = _NOT_IN_KEY.sub("_", text)[:_LONGEST_KEY]
    return f"_{key}"[:_LONGEST_KEY] if key.lower().startswith(_RESERVED) else key


def _value(text: str) -> str:
    return _NOT_IN_VALUE.sub("_", text)[:_LONGEST_VALUE]


RULES = TagRules(
    key=_key,
    value=_value,
    requirement="at most 128 characters, none of <>%&\\?/, in a key that does not begin with azure, microsoft or windows,"
    " and at most 256 in a value",
)


def of(spec: LaunchSpec, account: AccountSettings) -> dict[str, str]:
    """Name, owner and token, the account's own tags, and the tenant's labels under their prefix.

    `of_vm` reads labels back as they were. Of labels that differ only in case, the last label stays. A label whose key
    is longer than a tag's name gets no tag.
    """
    ours = {NAME: _value(spec.name), **spec.owner.as_tags(), TOKEN: spec.token, **group_tag(spec)}
    labels: dict[str, tuple[str, str]] = {}
    for label, value in sorted(spec.labels.items()):
        key = label_key(label)
        if key == _key(key):
            labels[key.lower()] = (key, _value(value))
    most = _MOST_TAGS - 1  # the hash of the parameters needs one more tag
    return combine([ours, *of_account(spec, account, RULES), dict(labels.values())], most)


def of_shared(spec: LaunchSpec, account: AccountSettings) -> dict[str, str]:
    """The tags of what the members of a group share: the group, the member that created it, and the account's own."""
    ours = {**spec.owner.as_tags(), **group_tag(spec), **shared_tag(spec)}
    return combine([ours, *of_account(spec, account, RULES)], _MOST_TAGS)


def of_volume(new: DiskSpec, account: AccountSettings) -> dict[str, str]:
    """The tags of a disk that outlives VMs."""
    ours = {NAME: _value(new.name), **volume_tags(new.installation, new.tenant_id, new.volume_id)}
    return combine([ours, account.tags], _MOST_TAGS)


def of_installation(spec: LaunchSpec, account: AccountSettings) -> dict[str, str]:
    """The tags of what all VMs of the installation share: it belongs to no lease and no tenant."""
    return combine([{INSTALLATION: spec.owner.installation}, account.tags], _MOST_TAGS)


def read(tags: Mapping[str, str] | None) -> dict[str, str]:
    """The tags as Azure returns them. None (no tags) becomes an empty dictionary."""
    return dict(tags or {})


def of_vm(tags: Mapping[str, str] | None) -> dict[str, str]:
    """The tags of a VM, with the tenant's labels as they were."""
    return with_labels(read(tags), str)
