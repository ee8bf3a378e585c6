"""Volumes, and their mounts in lease requests."""

from typing import Annotated

from pydantic import AfterValidator, Field

from app.api.schemas import patterns
from app.api.schemas.base import ActingTenant, Body, Moment, Money, Name, Page, Text, View
from app.api.schemas.hardware import GROWS
from app.api.schemas.lease_fields import Labels
from app.domain import volumes
from app.domain.reasons import Origin, ReasonCode
from app.domain.volumes import LARGEST_GIB, LONGEST_PATH, MOST_OF_LEASE, VolumeState, mounts_problem, path_problem

Place = Annotated[Text, Field(min_length=1, max_length=100)]


def _mount_path(path: str) -> str:
    problem = path_problem(path)
    if problem is not None:
        raise ValueError(problem)
    return path


class VolumeMount(Body):
    """A volume, and the directory where the VM mounts it."""

    name: Annotated[Name, Field(description="The name of a volume of the tenant.")]
    path: Annotated[
        str,
        Field(
            max_length=LONGEST_PATH,
            json_schema_extra={"pattern": patterns.MOUNT_PATH.regex},
            description="An absolute path outside the directories of the operating system.",
            examples=["/data"],
        ),
        AfterValidator(_mount_path),
    ]


def _separate(mounts: list[VolumeMount]) -> list[VolumeMount]:
    problem = mounts_problem([volumes.VolumeMount(mount.name, mount.path) for mount in mounts])
    if problem is not None:
        raise ValueError(problem)
    return mounts


MountedVolumes = Annotated[
    Annotated[list[VolumeMount], Field(max_length=MOST_OF_LEASE), AfterValidator(_separate)] | None,
    Field(
        description=(
            "Volumes of the tenant that the VM mounts, all of one zone. The VM runs there. The lease holds them until it has "
            "ended: one lease at a time holds a volume. They outlive the VM."
        )
    ),
]


class MountedVolume(View):
    """A volume, and the directory where the VM mounts it."""

    name: str
    path: Annotated[str, Field(description="The directory where the VM mounts it.")]


class NewVolume(Body):
    """A new volume: an empty disk in one zone of an account. Leases that mount it run there."""

    name: Annotated[Name, Field(description="Unique among the tenant's live volumes.")]
    size_gib: Annotated[int, Field(ge=1, le=LARGEST_GIB, description="Its size. It does not change.")]
    account: Annotated[Place, Field(description="An account of `GET /v1/offerings`.", examples=["main"])]
    region: Annotated[Place, Field(description="A region of the account.", examples=["us-east-1"])]
    zone: Annotated[Place, Field(description="A zone with offerings.", examples=["us-east-1a"])]
    labels: Labels = Field(default_factory=dict)
    tenant_id: ActingTenant = None


class VolumeReason(View):
    """Why a volume failed, was lost, or is late."""

    code: Annotated[ReasonCode, Field(description="The cause, for programs. " + GROWS)]
    message: str
    origin: Annotated[Origin, Field(description="Who or what caused it. " + GROWS)]
    retryable: Annotated[bool, Field(description="The same request may succeed later.")]


class Volume(View):
    """A disk that outlives leases. One lease at a time holds it."""

    id: str
    tenant_id: str
    name: str
    labels: dict[str, str]
    size_gib: Annotated[int, Field(description="Its size.")]
    provider: str
    account: str
    region: str
    zone: str
    kind: Annotated[str | None, Field(description="The provider's name of the kind of disk. Null: not created yet.")]
    state: Annotated[VolumeState, Field(description=f"The state of the volume; `reason` gives its cause. {GROWS}")]
    reason: Annotated[VolumeReason | None, Field(description="Null: it is as requested.")]
    lease_id: Annotated[str | None, Field(description="The lease that holds it. Null: it is free.")]
    last_lease_id: Annotated[str | None, Field(description="The newest lease that held it. Null: none did.")]
    last_used_at: Annotated[Moment | None, Field(description="When that lease ended. Null: none did, or it holds it.")]
    price_per_hour: Annotated[Money | None, Field(description="USD for the whole volume. Null: unknown, not metered.")]
    cost: Annotated[Money | None, Field(description="USD that it has cost. Null: its price is unknown.")]
    key_id: Annotated[str, Field(description="The API key that created it.")]
    version: int
    created_at: Moment
    updated_at: Moment
    billing_started_at: Annotated[Moment | None, Field(description="When the cloud had the disk. Null: not yet.")]
    billing_ended_at: Moment | None
    ended_at: Annotated[Moment | None, Field(description="When it was deleted, failed or was lost. Null: it exists.")]


class VolumePage(Page):
    """A page of volumes, newest first."""

    items: list[Volume]
