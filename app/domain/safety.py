"""Rules that tell a real loss from a mistaken view of the world."""

FEW = 5
SHARE = 0.05


def too_many(lost: int, live: int) -> bool:
    """More than five, and more than 5 % of what lives there, gone in one cycle is not believed at once."""
    return lost > max(FEW, SHARE * live)
