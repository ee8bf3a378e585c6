"""How the GPUs of a VM are, as `PUT /_sim/gpus` sets it: of one VM, or of VMs launched from now on. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum


class RecoveryAction(StrEnum):
    """What NVIDIA's driver requests (NVML field 230)."""

    NONE = "none"
    RESET = "reset"
    REBOOT = "reboot"
    DRAIN_P2P = "drain_p2p"
    DRAIN_AND_RESET = "drain_and_reset"


class AgentMode(StrEnum):
    """`off`: the VM's agent never runs. `no_network`: it reaches nothing but the serial console."""

    ON = "on"
    OFF = "off"
    NO_NETWORK = "no_network"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuCondition:
    """`visible`: GPUs that the driver shows; None: all. `model`: as the driver names them; None: that of the type.

    `xids`: codes since the boot. A reboot clears them and `recovery_action`. `utilization`: percent of every GPU; None: a curve of a busy VM.
    """

    visible: int | None = None
    model: str | None = None
    xids: tuple[int, ...] = ()
    remap_failed: bool = False
    recovery_action: RecoveryAction = RecoveryAction.NONE
    utilization: int | None = None
    agent: AgentMode = AgentMode.ON


HEALTHY = GpuCondition()


def rebooted(condition: GpuCondition) -> GpuCondition:
    """The condition after a reboot of the VM."""
    return replace(condition, xids=(), recovery_action=RecoveryAction.NONE)


@dataclass(slots=True)
class GpuConditions:
    """Conditions of VMs launched from now on, by provider and instance type; None as the type: of all other types."""

    launched: dict[tuple[str, str | None], GpuCondition] = field(default_factory=dict)

    def put(self, provider: str, instance_type: str | None, condition: GpuCondition) -> None:
        """VMs launched from now on are like this. A condition of all types replaces those of single types."""
        if instance_type is None:
            self.launched = {
                key: condition_of_type for key, condition_of_type in self.launched.items() if key[0] != provider
            }
        self.launched[provider, instance_type] = condition

    def of_launch(self, provider: str, instance_type: str) -> GpuCondition:
        """The condition of a VM that is launched now."""
        for key in ((provider, instance_type), (provider, None)):
            if key in self.launched:
                return self.launched[key]
        return HEALTHY
