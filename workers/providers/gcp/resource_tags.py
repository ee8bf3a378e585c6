"""Our tags as labels of Google, kept inside what Google accepts.

Limits (Compute Engine guide, "Label resources"): 64 labels a resource, keys and values of at most 63 lower-case letters,
digits, `_` and `-`; a key begins with a letter.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence

from app.domain import tags
from app.domain.labels import valid_labels
from app.domain.tags import BATCH, LABEL_PREFIX, NAME_LABEL, OwnerTags
from app.settings import AccountSettings
from app.settings.account_tags import TagRules
from workers.providers.common.tags import combine, group_tag, of_account
from workers.providers.types import DiskSpec, LaunchSpec

_NOT_ALLOWED = re.compile(r"[^a-z0-9_-]")
METADATA = "gpulease-labels"
"""The key of a VM's metadata with the tenant's labels as JSON."""
SLOTS = "gpulease-slots"
"""The key of the metadata that the VMs of a batch share: the beginning of each VM's name, in the order of the slots."""
_SLOT_DIGITS = 12
_OF_SLOT = 3
"""Labels of `of_slot` that `of_batch` does not contain: lease, attempt and name."""
_LONGEST = 63
_DIGITS = 16
_MOST = 64


def _squeezed(text: str) -> str:
    return _NOT_ALLOWED.sub("_", text.lower())[:_LONGEST]


def _key(text: str) -> str:
    return _squeezed(text if text[:1].isalpha() else f"x{text}")


RULES = TagRules(
    key=_key,
    value=_squeezed,
    requirement="at most 63 lower-case letters, digits, _ and -; a key begins with a letter",
)


def of(spec: LaunchSpec, account: AccountSettings) -> dict[str, str]:
    """Name and owner, the account's own labels, and the tenant's labels under their prefix.

    A character that Google refuses in a tenant's label becomes `_`. `metadata` holds the tenant's labels as they are.
    """
    return _combined({NAME_LABEL: _squeezed(spec.name), **of_owner(spec.owner)}, spec, account, _MOST)


def of_batch(spec: LaunchSpec, account: AccountSettings, batch_id: str) -> dict[str, str]:
    """The labels that the VMs of a batch share. They leave room for those of `of_slot`."""
    ours = {key: exact(text) for key, text in tags.batch_tags(spec.owner, batch_id).items()}
    return _combined(ours, spec, account, _MOST - _OF_SLOT)


def of_slot(owner: OwnerTags, name: str | None) -> dict[str, str]:
    """The labels that a VM of a batch gets after its launch."""
    return {**of_owner(owner), **({NAME_LABEL: _squeezed(name)} if name is not None else {})}


def of_volume(new: DiskSpec, account: AccountSettings) -> dict[str, str]:
    """The labels of a disk that outlives VMs."""
    owner = tags.volume_tags(new.installation, new.tenant_id, new.volume_id)
    ours = {NAME_LABEL: _squeezed(new.name), **{key: exact(text) for key, text in owner.items()}}
    return combine([ours, account.tags], _MOST)


def slots_metadata(names: Sequence[str]) -> str:
    """The value of SLOTS for VMs of these names. A `launch_name` ends in digits of its token."""
    return "".join(map(_slot_digits, names))


def _slot_digits(name: str) -> str:
    return name.rpartition("-")[2][:_SLOT_DIGITS]


def batch_of(labels: Mapping[str, str], slots: str | None, name: str) -> tuple[str, int] | None:
    """The batch of a VM and its slot. `slots`: the value of SLOTS, if the VM has it."""
    digits = _slot_digits(name)
    if BATCH not in labels or slots is None or len(digits) < _SLOT_DIGITS:
        return None
    at = slots.find(digits)
    while at % _SLOT_DIGITS and at >= 0:
        at = slots.find(digits, at + 1)
    return (labels[BATCH], at // _SLOT_DIGITS) if at >= 0 else None


def _combined(ours: Mapping[str, str], spec: LaunchSpec, account: AccountSettings, most: int) -> dict[str, str]:
    ours = {**ours, **{key: exact(text) for key, text in group_tag(spec).items()}}
    labels = {_squeezed(LABEL_PREFIX + key): _squeezed(value) for key, value in sorted(spec.labels.items())}
    return combine([ours, *of_account(spec, account, RULES), labels], most)


def metadata(spec: LaunchSpec) -> dict[str, str]:
    """The metadata of a VM with the tenant's labels. Empty without labels."""
    return {METADATA: json.dumps(dict(sorted(spec.labels.items())))} if spec.labels else {}


def of_vm(labels: Mapping[str, str], stored: str | None) -> dict[str, str]:
    """The labels of a VM, with the tenant's labels as they were. `stored`: the value of METADATA, if the VM has it.

    Everyone who may change the VM may change the value. A value that gpulease does not write counts as absent.
    """
    try:
        tenants = valid_labels(json.loads(stored)) if stored is not None else None
    except (ValueError, TypeError, AttributeError, RecursionError):
        tenants = None
    if tenants is None:
        return dict(labels)
    others = {key: value for key, value in labels.items() if not key.startswith(LABEL_PREFIX)}
    return others | {LABEL_PREFIX + key: value for key, value in tenants.items()}


def of_owner(owner: OwnerTags) -> dict[str, str]:
    """The owner's tags as they are written."""
    return {key: exact(text) for key, text in owner.as_tags().items()}


def exact(text: str) -> str:
    """The text itself when it fits, else a shortened form with a hash, the same for the same text."""
    if len(text) <= _LONGEST and not _NOT_ALLOWED.search(text):
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
    return f"{_squeezed(text)[: _LONGEST - _DIGITS - 1]}-{digest}"


def belongs(labels: Mapping[str, str], owner: OwnerTags) -> bool:
    """Whether labels name this installation, lease and attempt."""
    ours = of_owner(owner)
    return all(labels.get(key) == ours[key] for key in (tags.INSTALLATION, tags.LEASE, tags.ATTEMPT))


def having(key: str, value: str) -> str:
    """A list filter on one label."""
    return f'(labels.{key} = "{exact(value)}")'
