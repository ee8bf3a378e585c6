"""Rules that distinguish a real loss of VMs from a faulty listing."""

FEW = 5
SHARE = 0.05


def too_many(lost: int, live: int) -> bool:
    """Whether one cycle lost more than five VMs and more than 5 % of the live ones: then it needs confirmation."""
    return lost > max(FEW, SHARE * live)
