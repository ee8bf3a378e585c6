"""What a stand-in for a cloud gives the contract, and what it says that it cannot show."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Protocol

from workers.providers import errors
from workers.providers.ports import Provider
from workers.providers.types import Image, Params

PATIENCE = 30.0
"""Seconds that anything simulated may take."""


class Power(StrEnum):
    """What a stand-in may or may not be able to show."""

    TOKENS = "idempotent launch tokens, and finding by them"
    BOOT = "a boot that takes time, status checks included"
    REFUSALS = "any refusal of a launch on request"
    LATE_REFUSALS = "a launch that is accepted and then refused"
    LOST_ANSWERS = "answers that are lost or never come"
    CAPACITY = "places without capacity"
    INTERRUPTIONS = "spot VMs taken back"
    NOTICES = "a notice minutes before a spot VM is taken back"
    MANY = "thousands of VMs"
    OFFERS = "types, zones and prices"
    QUOTAS = "service quotas"
    IMAGE = "the driver-ready image"
    LEFTOVERS = "a disk that outlives its VM"
    BELONGINGS = "tags on what is made with a VM, from the launch call"
    IMAGE_CHECK = "refusing an image that does not exist"
    CONSOLE = "what a VM prints while it boots"
    HELD = "refusing to remove what is in use"
    REBOOTS = "reboots that leave a trace"
    AT_ONCE = "no capacity in the answer to the launch itself"
    BATCHES = "several VMs with one call"
    PLACEMENT = "VMs of a group close together"
    SEPARATION = "VMs that do not reach each other"
    MEMORY = "VMs that still show once they have ended"


Inbound = tuple[str, int, int, str]
"""(protocol, first port, last port, network)."""


class Backend(Protocol):
    """A stand-in for a cloud with an adapter connected to it, empty at the start of each case."""

    provider: Provider
    impatient: Provider
    """The same account; its calls end after `short_timeout` seconds."""
    short_timeout: float
    region: str
    other_region: str
    zone: str
    other_zone: str
    instance_type: str
    refusals: Sequence[type[errors.ProviderError]]
    """What `refuse` can make of a launch."""
    belonging_kinds: frozenset[str]
    """Kinds of leftover that are made, and tagged, with each VM."""
    firewall_stages: Sequence[str]
    """The calls that make a firewall for `NETWORKS`, in their order."""
    group_stages: Sequence[str]
    """The calls of a launch that makes what a group shares, as `lose_reply` takes them."""
    page: int
    """Most VMs of one page of a listing."""
    portion: int
    """Most VMs of one direct get."""

    def image(self) -> Image:
        """Some image that exists."""

    def alive(self) -> Mapping[str, Mapping[str, str]]:
        """Ground truth: tags by id of every VM that is not ended."""

    def belongings(self, vm_id: str) -> Mapping[str, Mapping[str, str]]:
        """Ground truth: tags of the VM's disk and network interface, by kind of leftover."""

    def refuse(self, kind: type[errors.ProviderError]) -> None:
        """Makes the next launch fail in a way that means `kind`."""

    def refuse_late(self) -> None:
        """The next launch is accepted, and refused a moment later because there is no capacity."""

    def lose_next_launch_reply(self) -> None:
        """The next launch is done and its answer lost."""

    def lose_next_batch_reply(self) -> None:
        """The next launch of several VMs is done and its answer lost."""

    def shuffle_next_batch(self) -> None:
        """The next launch of several VMs starts or lists them in another order."""

    def leave_room(self, zone: str, count: int) -> None:
        """Only so many more VMs can start in the zone."""

    def hang_next_launch(self) -> None:
        """The next launch gets no answer."""

    def exhaust(self, zone: str) -> None:
        """No VM can start in the zone any more."""

    def interrupt(self, vm_id: str, notice_seconds: float) -> None:
        """The cloud takes a VM back."""

    def end_from_outside(self, vm_id: str) -> None:
        """Somebody else ends the VM."""

    def plant(self, count: int, tags: Mapping[str, str]) -> None:
        """Running VMs that somebody started."""

    def plant_elsewhere(self, tags: Mapping[str, str]) -> None:
        """One more, in the other region."""

    def firewalls(self, vm_id: str) -> Mapping[str, Sequence[Inbound]]:
        """Ground truth: inbound rules of each firewall object on a VM, by its id."""

    def break_firewall(self, stage: str) -> None:
        """The next call of a stage of making a firewall (`firewall_stages`) is done and its answer lost."""

    def open_ports(self, source: str, target: str, ports: Sequence[int]) -> tuple[int, ...]:
        """Ground truth by all rules that apply: where TCP from the VM `source`'s private address arrives at `target`."""

    def placed(self, vm_id: str) -> str | None:
        """Ground truth: what keeps a VM close to others, or None."""

    def lose_reply(self, call: str) -> None:
        """The next such call is done and its answer lost."""

    def reboots(self) -> int:
        """Ground truth: how many reboots were taken."""

    def keeping_the_disk(self, params: Params) -> Params:
        """The same launch, but its disk stays behind."""
