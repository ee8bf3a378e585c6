"""How long the start-up script and the SSH keys of a VM may be together, so that every cloud can launch it.

EC2 has the least room: 16,384 bytes of user data, which contain gpulease's own programs beside them.
"""

import base64
import gzip
import json
import quopri
from collections.abc import Sequence

MOST_ALONE = 13_500
"""Bytes of script and keys, compressed, of a lease outside a group. The loader of the agent fits beside them."""
MOST_IN_GROUP = 10_000
"""The same for a member of a group, whose user data contain the program of the group too."""

VOLUMES = 1_500
"""Bytes fewer for a lease with volumes: the program that mounts up to eight of them, and their paths."""

TOO_LONG = "InvalidUserData.TooLong"
"""Code of the error that gpulease raises before any call when script and keys do not fit into a launch."""


def boot_size(script: str | None, keys: Sequence[str]) -> int:
    """Bytes that script and keys take in user data. It differs by less than 2 % from what a launch measures.

    User data have the script compressed and in base64, beside the keys, and are compressed as a whole.
    """
    content = base64.b64encode(gzip.compress((script or "").encode(), mtime=0)).decode("ascii")
    text = json.dumps([content, *keys], ensure_ascii=False)
    return len(gzip.compress(quopri.encodestring(text.encode()), mtime=0))


def check_boot_size(script: str | None, keys: Sequence[str], *, in_group: bool, has_volumes: bool) -> None:
    """Raises ValueError when not every cloud can launch a VM with this script and these keys."""
    most, where = (MOST_IN_GROUP, " in a group") if in_group else (MOST_ALONE, "")
    if has_volumes:
        most, where = most - VOLUMES, f"{where} with volumes"
    size = boot_size(script, keys)
    if size > most:
        raise ValueError(
            f"has {size} bytes once compressed, with the SSH keys; {most} are the most{where}: "
            "let the script fetch a part of itself, or give the lease fewer keys"
        )
