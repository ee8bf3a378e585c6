"""Runs the command that prints a profile's key, for example `pass show gpulease`."""

import shlex
import subprocess

from app.cli.errors import NotConfiguredError
from app.cli.profiles.profiles import Profile

_PATIENCE = 60.0
"Seconds. A person may have to type a passphrase."


def profile_key(profile: Profile, *, timeout: float = _PATIENCE) -> str | None:
    """The profile's key: from the file, or the first line that its command prints. None without either.

    The command runs without a shell and may prompt at the terminal. Raises NotConfiguredError, which never contains the
    command's output.
    """
    return profile.key if profile.key_command is None else _printed(profile, timeout)


def _printed(profile: Profile, timeout: float) -> str:
    try:
        words = shlex.split(profile.key_command or "")
        done = subprocess.run(words, stdout=subprocess.PIPE, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        raise _fault(profile, f"printed no key within {timeout:g} s") from None
    except (OSError, ValueError, IndexError) as error:
        raise _fault(profile, f"failed to start: {error}") from None
    if done.returncode != 0:
        raise _fault(profile, f"exited with code {done.returncode}")
    key = done.stdout.decode(errors="replace").partition("\n")[0].strip()
    if not key:
        raise _fault(profile, "printed nothing")
    return key


def _fault(profile: Profile, what: str) -> NotConfiguredError:
    msg = f"profile {profile.name!r}: its key_command {what}; run it by hand ({profile.key_command}) or use --key"
    return NotConfiguredError(msg)
