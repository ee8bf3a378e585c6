"""Rules that tell a real loss from a mistaken view of the world."""

from collections.abc import Mapping

from app.domain.ids import is_typeid

FEW = 5
SHARE = 0.05


def too_many(lost: int, live: int) -> bool:
    """More than five, and more than 5 % of what lives there, gone in one cycle is not believed at once."""
    return lost > max(FEW, SHARE * live)


def is_from_the_future(key: tuple[str, int], attempts: Mapping[str, int], newest: str | None) -> bool:
    """Whether a VM's tag names a lease or an attempt newer than the database's newest.

    `attempts`: attempts counted by lease id; `newest`: the newest lease id. Lease ids sort by creation. The intent row
    always precedes the VM, so such a tag proves that the database has lost rows.
    """
    lease_id, n = key
    if lease_id in attempts:
        return n > attempts[lease_id]
    return is_typeid("lease", lease_id) and (newest is None or lease_id > newest)
