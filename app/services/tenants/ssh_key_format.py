"""Checks the text of SSH public keys: those of people, which may log in, and those of hosts."""

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_ssh_public_key

from app.domain.ssh_keys import LEAST_RSA_BITS, LONGEST_SSH_COMMENT, check_total, normal_form, split_key


def ssh_public_key(text: str) -> str:
    """The normal form of one line of an authorized_keys file without options. Raises ValueError."""
    line = normal_form(text.strip())
    kind, blob, comment = split_key(line)
    if len(comment) > LONGEST_SSH_COMMENT:
        raise ValueError(f"has a comment of {len(comment)} characters; {LONGEST_SSH_COMMENT} are the most")
    check_key_data(f"{kind} {blob}", "OpenSSH")
    return line


def check_ssh_keys(keys: list[str]) -> list[str]:
    """Raises ValueError when the keys are too many or too large together."""
    check_total(keys)
    return keys


def check_key_data(key: str, form: str) -> None:
    """Checks `<type> <base64>`: the key's own data and the size of RSA keys. Raises ValueError, which names `form`."""
    try:
        loaded = load_ssh_public_key(key.encode())
    except (ValueError, UnsupportedAlgorithm, NotImplementedError):  # the last one for a compressed point of a curve
        raise ValueError(f"is not a valid {form} public key") from None
    if isinstance(loaded, RSAPublicKey) and loaded.key_size < LEAST_RSA_BITS:
        raise ValueError(f"is an RSA key of {loaded.key_size} bits: it must have at least {LEAST_RSA_BITS}")
