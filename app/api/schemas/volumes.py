"""Volumes, and their mounts in lease requests."""

from typing import Annotated

from pydantic import AfterValidator, Field

from app.api.schemas import patterns
from app.api.schemas.base import Body, Name, View
from app.domain import volumes
from app.domain.volumes import LONGEST_PATH, MOST_OF_LEASE, mounts_problem, path_problem


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
