"""The tenant's public SSH keys, checked before they go into anything that a VM reads line by line."""

from collections.abc import Iterable

from app.domain.ssh_keys import normal_form
from workers.providers.errors import InvalidSpec

USER = "ubuntu"
"""The user of logins in every driver-ready image."""


def check(keys: Iterable[str]) -> None:
    """Raises InvalidSpec for a key that is not in the normal form, which the API stores."""
    for key in keys:
        try:
            stored = normal_form(key)
        except ValueError as error:
            msg = f"an SSH public key {error}"
            raise InvalidSpec(msg, code="InvalidKey.Format") from None
        if stored != key:
            msg = "an SSH public key is not in the normal form 'ssh-ed25519 AAAA… comment'"
            raise InvalidSpec(msg, code="InvalidKey.Format")
