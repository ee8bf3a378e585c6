"""The tags that every resource of ours carries, in the form that all clouds accept.

Lower-case keys without slashes or spaces (EC2 tags in instance metadata and GCE labels both refuse them).
A tenant's labels are kept apart by `gpulease-label-` and can never overwrite ours.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self

from app.domain.ids import LeaseId, TenantId
from app.domain.labels import valid_labels

INSTALLATION = "gpulease-installation"
LEASE = "gpulease-lease"
ATTEMPT = "gpulease-attempt"
TENANT = "gpulease-tenant"
PARAMS_HASH = "gpulease-params"
DEADLINE = "gpulease-deadline"
GROUP = "gpulease-group"
"""The id of the group, on its members, on what belongs to them and on what they share."""
SHARED = "gpulease-shared"
"""The id of the group whose members share the resource. It is kept until the group has ended, whichever member made it."""
VOLUME = "gpulease-volume"
"""The id of the volume, on its disk. A disk with this tag outlives VMs: it is never a leftover of a lease."""
BATCH = "gpulease-batch"
"""The launch batch that created the resource. Its VM belongs to a slot of the batch."""
LABEL_PREFIX = "gpulease-label-"
NAME = "Name"
NAME_LABEL = "name"
"""Compute Engine's labels have lower-case keys."""

_OWNER = (INSTALLATION, LEASE, ATTEMPT, TENANT, PARAMS_HASH)
_NUMBER = re.compile(r"[1-9][0-9]{0,8}")
"""An attempt's number as we write it; fits an int4."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerTags:
    """Whose a resource is. `deadline_at`: when the dead-man switch may end it, whole seconds."""

    installation: str
    lease_id: LeaseId
    n: int
    tenant_id: TenantId
    params_hash: str
    deadline_at: datetime

    def as_tags(self) -> dict[str, str]:
        """Text for text, as every cloud takes them."""
        return {
            INSTALLATION: self.installation,
            LEASE: self.lease_id,
            ATTEMPT: str(self.n),
            TENANT: self.tenant_id,
            PARAMS_HASH: self.params_hash,
            DEADLINE: str(int(self.deadline_at.timestamp())),
        }

    @classmethod
    def parse(cls, tags: Mapping[str, str]) -> Self | None:
        """None when a tag is missing or malformed: such a resource did not come from the protocol."""
        if any(key not in tags for key in _OWNER) or _NUMBER.fullmatch(tags[ATTEMPT]) is None:
            return None
        return cls(
            installation=tags[INSTALLATION],
            lease_id=LeaseId(tags[LEASE]),
            n=int(tags[ATTEMPT]),
            tenant_id=TenantId(tags[TENANT]),
            params_hash=tags[PARAMS_HASH],
            deadline_at=deadline(tags) or datetime.max.replace(tzinfo=UTC),
        )


def batch_tags(owner: OwnerTags, batch_id: str) -> dict[str, str]:
    """The tags that the VMs of a batch have from their launch. Lease and attempt of `owner` are not among them."""
    own = {key: text for key, text in owner.as_tags().items() if key not in (LEASE, ATTEMPT)}
    return {**own, BATCH: batch_id}


def volume_tags(installation: str, tenant_id: TenantId, volume_id: str) -> dict[str, str]:
    """The tags of a volume's disk. It belongs to no lease."""
    return {INSTALLATION: installation, TENANT: tenant_id, VOLUME: volume_id}


def attempt_key(tags: Mapping[str, str]) -> tuple[str, int] | None:
    """(lease id, attempt n) that a resource names, or None."""
    lease_id, n = tags.get(LEASE), tags.get(ATTEMPT, "")
    return (lease_id, int(n)) if lease_id and _NUMBER.fullmatch(n) else None


def name(tags: Mapping[str, str]) -> str | None:
    """The name of the lease, as far as the cloud accepts its characters, or None."""
    return tags.get(NAME) or tags.get(NAME_LABEL)


def labels(tags: Mapping[str, str]) -> dict[str, str]:
    """The labels of the lease, from tags as an adapter has read them."""
    values = {key.removeprefix(LABEL_PREFIX): value for key, value in tags.items() if key.startswith(LABEL_PREFIX)}
    return valid_labels(values)


def deadline(tags: Mapping[str, str]) -> datetime | None:
    """The tagged deadline, or None when there is none or it cannot be read."""
    try:
        return datetime.fromtimestamp(int(tags[DEADLINE]), tz=UTC)
    except (KeyError, ValueError, OverflowError, OSError):
        return None
