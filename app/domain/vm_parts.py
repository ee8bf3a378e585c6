"""The parts of a VM besides compute: its network disks and its public address. Sizes are GiB."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

DEFAULT_DISK_GIB = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class PartsRequest:
    """The part of a lease request that decides them. `image`: a name of the operators' list; None: the account's default image.

    The defaults are those of a lease request.
    """

    disk_gib: int = DEFAULT_DISK_GIB
    public_ip: bool = True
    image: str | None = None


DEFAULT_PARTS = PartsRequest()


def image_key(name: str | None, driver: str) -> str:
    """The key of an image in `PartsFacts.image_gib`: its name, or the driver of a default image.

    `driver`: of `app.domain.offerings.Driver`.
    """
    return name if name is not None else f"driver:{driver}"  # names of images have no colon


@dataclass(frozen=True, slots=True, kw_only=True)
class PartsFacts:
    """What an account gives its VMs in a region. Workers store it, from the account's settings and from its cloud.

    `data_disk_gib`: an extra disk of each VM; 0: none. `disk_sizes_gib`: sizes by which the provider bills a disk,
    ascending: a disk costs what the next larger size costs. Empty: a disk costs what its own size costs.
    `public_addresses`: whether a VM gets the address that its lease requests. `image_gib`: the least boot disk of the
    images that were looked up, by `image_key`. `volume_kind`: the provider's name of the kind of new volumes; None: every
    type attaches it. `attached_kinds`: by instance type, with what the names of the kinds begin that it attaches alone.
    """

    data_disk_gib: int = 0
    disk_sizes_gib: tuple[int, ...] = ()
    public_addresses: bool = True
    image_gib: Mapping[str, int] = field(default_factory=dict, hash=False)
    volume_kind: str | None = None
    attached_kinds: Mapping[str, str] = field(default_factory=dict, hash=False)

    @classmethod
    def from_json(cls, settings: Mapping[str, Any] | None, image_gib: Mapping[str, int] | None) -> Self:
        """`settings`: as `settings_json` returns it. None: not stored yet."""
        known = settings or {}
        return cls(
            data_disk_gib=known.get("data_disk_gib", 0),
            disk_sizes_gib=tuple(known.get("disk_sizes_gib", ())),
            public_addresses=known.get("public_addresses", True),
            image_gib=image_gib or {},
            volume_kind=known.get("volume_kind"),
            attached_kinds=known.get("attached_kinds", {}),
        )

    def settings_json(self) -> dict[str, Any]:
        """All but `image_gib`: the same in every region."""
        return {
            "data_disk_gib": self.data_disk_gib,
            "disk_sizes_gib": list(self.disk_sizes_gib),
            "public_addresses": self.public_addresses,
            "volume_kind": self.volume_kind,
            "attached_kinds": dict(self.attached_kinds),
        }

    def billed_disk_gib(self, parts: PartsRequest, driver: str) -> int:
        """Billed GiB of all network disks of a VM.

        The boot disk is as large as the request says, and at least as large as the image. An image that nobody has
        looked up counts as small enough for the request.
        """
        boot = max(parts.disk_gib, self.image_gib.get(image_key(parts.image, driver), 0))
        return self.billed_gib(boot) + self.billed_gib(self.data_disk_gib)

    def gives_address(self, parts: PartsRequest) -> bool:
        """Whether a VM gets a public address."""
        return parts.public_ip and self.public_addresses

    def billed_gib(self, gib: int) -> int:
        """The size by which the provider bills a disk of `gib`."""
        if not gib:
            return 0
        return next((size for size in self.disk_sizes_gib if size >= gib), gib)

    def volume_objection(self, instance_type: str, kinds: Iterable[str]) -> str | None:
        """Why a VM of the type cannot attach volumes of these kinds. None: it can."""
        start = self.attached_kinds.get(instance_type, "")
        refused = sorted(kind for kind in kinds if not kind.startswith(start))
        return f"attaches {start}* volumes alone, and none of the type {refused[0]}" if refused else None
