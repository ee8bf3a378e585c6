"""What must hold of the volumes of a storm: their rows, their disks by the clouds' own record, and their files."""

from collections.abc import Sequence
from typing import Any

from app.local.waiting import wait_until
from bench.three_clouds import Installation, wait_for_none
from tests.chaos.course import Course
from tests.chaos.losses import Losses
from tests.chaos.volume_users import VolumeUsers
from tests.e2e.people import Tenant
from tests.e2e.volume_truth import Excused, volume_problems

_DISKS_SECONDS = 20.0
_DELETION_SECONDS = 330.0
"""A deletion that is refused while a VM has the disk is tried again after up to five minutes."""
_OPEN = ("creating", "available", "deleting")


class VolumeChecks:
    """The volumes of one tenant. `hostile`: what the database has lost of another one, which has volumes too."""

    def __init__(
        self,
        installation: Installation,
        tenant: Tenant,
        course: Course,
        losses: Losses,
        hostile: Losses,
        users: VolumeUsers,
    ) -> None:
        self._installation = installation
        self._tenant = tenant
        self._course = course
        self._losses = losses
        self._hostile = hostile
        self._users = users

    @property
    def excused(self) -> Excused:
        """What the database cannot know of volumes."""
        mine, other = self._losses, self._hostile
        return Excused(
            unknown=mine.volumes | other.volumes,
            set_back=mine.volumes_set_back | other.volumes_set_back,
            leases=mine.rebuilt | other.rebuilt,
        )

    @property
    def unknown(self) -> set[str]:
        """Volumes whose rows were lost: their disks are data, and stay."""
        return self._losses.volumes

    def checks(self) -> dict[str, list[str]]:
        """When everything is quiet."""
        self._users.check_active()
        rows = {volume["id"] for volume in self._tenant.volumes()}
        return {
            "volumes lost without a reason": sorted(self._course.volumes.keys() - rows - self._losses.volumes),
            "files lost or changed": sorted(self._users.wrong),
            **self._disks(),
        }

    def checks_after_release(self) -> dict[str, list[str]]:
        """When every lease was released: volumes are deleted too. The last comparison of both sides has their disks."""

        def left() -> Sequence[Any]:
            self._tenant.delete_volumes()
            return self._tenant.volumes(*_OPEN)

        still = [f"{volume['id']} is {volume['state']}" for volume in wait_for_none(left, _DELETION_SECONDS)]
        return {"volumes not deleted": still}

    def figures(self) -> dict[str, Any]:
        """How much there was of everything."""
        return {"volumes": {**self._users.figures, "volumes whose rows were lost": len(self._losses.volumes)}}

    def _disks(self) -> dict[str, list[str]]:
        problems: dict[str, list[str]] = {}

        def well() -> bool:
            one = self._installation
            problems.update(volume_problems(one.cloud, one.database_url, self.excused))
            return not any(problems.values())

        wait_until(well, timeout=_DISKS_SECONDS, poll=0.5)
        return dict(problems)
