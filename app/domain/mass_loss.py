"""Rules that distinguish a real loss of VMs from a faulty listing."""

from collections.abc import Mapping

FEW = 5
SHARE = 0.05
CONFIRMING_CYCLES = 3
"""Number of consecutive cycles that must show the same mass loss before workers act on it."""


def mass_loss_of(lost: Mapping[str, int], live: Mapping[str, int]) -> frozenset[str]:
    """Tenants whose lost VMs need confirmation. `lost`, `live`: VMs of each tenant; `live` contains the lost ones.

    A tenant may end all its VMs from inside. So losses concern others only if too many VMs are lost without those of the
    tenant that lost most.
    """
    if not too_many(sum(lost.values()), sum(live.values())):
        return frozenset()
    most = max(lost, key=lambda tenant: (lost[tenant], tenant))
    if too_many(sum(lost.values()) - lost[most], sum(live.values()) - live.get(most, 0)):
        return frozenset(lost)
    return frozenset({most})


def too_many(lost: int, live: int) -> bool:
    """Whether one cycle lost more than five VMs and more than 5 % of the live ones: then it needs confirmation."""
    return lost > max(FEW, SHARE * live)
