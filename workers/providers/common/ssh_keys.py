"""The tenant's public SSH keys, checked before they go into anything that a VM reads line by line."""

import re
from collections.abc import Iterable

from workers.providers.errors import InvalidSpec

USER = "ubuntu"
"""The user of logins in every driver-ready image."""

_KEY = re.compile(
    r"(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)|sk-(ssh-ed25519|ecdsa-sha2-nistp256)@openssh\.com)"
    r" [A-Za-z0-9+/]{16,}={0,2}( [^\x00-\x1f]*)?"
)


def check(keys: Iterable[str]) -> None:
    """Raises InvalidSpec for one that is not a key on one line of printable characters."""
    for key in keys:
        if not key.isprintable() or _KEY.fullmatch(key) is None:
            msg = "an SSH public key is not of the form 'ssh-ed25519 AAAA… comment' on one line"
            raise InvalidSpec(msg, code="InvalidKey.Format")
