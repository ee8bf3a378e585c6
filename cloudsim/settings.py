"""What the simulated clouds take for granted: times, limits and two ready-made profiles."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, NonNegativeFloat

ProfileName = Literal["fast", "realistic"]
YEAR_SECONDS = 366 * 86_400


def _loopback(text: str) -> str:
    if not ip_address(text).is_loopback:
        raise ValueError("must be a loopback address")
    return text


class Settings(BaseModel):
    """Durations in seconds. Defaults are the `fast` profile."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    boot_seconds: NonNegativeFloat = Field(1.0, le=YEAR_SECONDS)
    """From launch to passed status checks; the VM shows `running` after a quarter of it."""
    refusal_seconds: NonNegativeFloat = Field(0.0, le=YEAR_SECONDS)
    """From an accepted launch to its refusal, at clouds that report a lack of capacity only afterwards."""
    queue_seconds: NonNegativeFloat = Field(0.5, le=YEAR_SECONDS)
    """How long a launch waits in its cloud's queue for capacity, where the cloud has one."""
    list_lag_seconds: NonNegativeFloat = Field(0.0, le=YEAR_SECONDS)
    """How long a fresh VM is invisible to every call but the launch itself."""
    operation_lag_seconds: NonNegativeFloat = Field(0.0, le=YEAR_SECONDS)
    """How long lists do not show a fresh operation, at clouds that have operations."""
    resource_lag_seconds: NonNegativeFloat = Field(0.0, le=YEAR_SECONDS)
    """How long the lists of EC2 do not show a fresh security group, placement group or volume."""
    volume_seconds: NonNegativeFloat = Field(0.0, le=YEAR_SECONDS)
    """How long a disk that is made without a VM shows as being created, and a disk without a VM as being deleted."""
    volume_gib: int | None = Field(None, ge=0)
    """GiB of all volumes that EC2 allows in a region; None: no limit."""
    page_token_seconds: NonNegativeFloat = Field(3_600.0, le=YEAR_SECONDS)
    """How long the token of the next page of a list is good for."""
    update_seconds: NonNegativeFloat = Field(0.05, le=YEAR_SECONDS)
    """How long Azure shows a VM as `Updating` after an update."""
    busy_seconds: NonNegativeFloat = Field(0.0, le=YEAR_SECONDS)
    """How long Azure refuses an update or a deletion of a VM after an accepted create or update call."""
    nic_reserved_seconds: NonNegativeFloat = Field(0.0, le=YEAR_SECONDS)
    """How long Azure reserves a network interface for its VM after the end of that VM."""
    shutdown_seconds: NonNegativeFloat = Field(0.2, le=YEAR_SECONDS)
    """From `shutting-down` to `terminated`."""
    cleanup_seconds: NonNegativeFloat = Field(0.2, le=YEAR_SECONDS)
    """From `terminated` until the VM's own disks and network interfaces are gone."""
    terminated_visible_seconds: NonNegativeFloat = Field(60.0, le=YEAR_SECONDS)
    """How long listings still show a terminated VM (EC2: about an hour)."""
    history_seconds: NonNegativeFloat = Field(86_400.0, le=YEAR_SECONDS)
    """How long `/_sim/instances` and launch tokens remember a terminated VM."""
    vm_address: Annotated[str, AfterValidator(_loopback)] | None = None
    """The public address of every VM, instead of one each: where a test runs an SSH server."""
    vm_network: Literal["198.18", "127.18"] = "198.18"
    """The first half of the public address of each VM. 198.18: nothing answers there (the block for benchmarks).
    127.18: the loopback network, at which the SSH server of `--ssh-port` answers."""
    gpu_agents: int = Field(0, ge=0, le=256)
    """VMs whose agent runs as a process, the first ones. cloudsim makes the proof of the others, which send no samples."""
    rate_limits: bool = False
    default_quota_vcpus: int = Field(10_000_000, ge=0)
    """vCPUs of every GPU quota that was not set by `PUT /_sim/quota`."""
    placement_group_capacity: int | None = Field(None, ge=0)
    """VMs that find room in one placement group; None: as many as the zone has."""
    relaunch_of_terminated: Literal["instance", "error"] = "instance"
    """A launch token whose VM is terminated answers that VM again, or IdempotentInstanceTerminated
    (a code of EC2's published list)."""

    def changed(self, **changes: object) -> Settings:
        """These settings with `changes`, validated (pydantic.ValidationError)."""
        return Settings.model_validate({**self.model_dump(), **changes})


PROFILES: dict[ProfileName, Settings] = {
    "fast": Settings(),
    "realistic": Settings(
        boot_seconds=20.0,
        refusal_seconds=2.0,
        queue_seconds=60.0,
        list_lag_seconds=1.0,
        operation_lag_seconds=1.0,
        resource_lag_seconds=10.0,
        volume_seconds=3.0,
        update_seconds=2.0,
        busy_seconds=1.0,
        nic_reserved_seconds=180.0,
        shutdown_seconds=5.0,
        cleanup_seconds=2.0,
        terminated_visible_seconds=3600.0,
        rate_limits=True,
        default_quota_vcpus=3_072,
    ),
}
