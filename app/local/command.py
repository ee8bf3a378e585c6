"""Runs a command against a started stack: `gpulease up --profile fast --fresh -- pytest`."""

import subprocess
from collections.abc import Mapping, Sequence

from app.local.demo import Credentials
from app.settings import StartupError

END_SECONDS = 10.0
BY_SIGNAL = 128


def command_environment(credentials: Credentials, outside: Mapping[str, str]) -> dict[str, str]:
    """The environment of the command: the one of the stack's own start, and where the stack is."""
    cloudsim = {"GPULEASE_CLOUDSIM_URL": credentials.cloudsim_url} if credentials.cloudsim_url else {}
    return {
        **outside,
        "GPULEASE_URL": credentials.api_url,
        "GPULEASE_KEY": credentials.tenant_key,
        "GPULEASE_OPERATOR_KEY": credentials.operator_key,
        **cloudsim,
    }


def run_command(argv: Sequence[str], environment: Mapping[str, str]) -> int:
    """The exit code of the command; 128 and the signal's number when a signal ended it, as a shell reports it.

    Ends the command when this process is asked to end. Raises StartupError when the command cannot be started.
    """
    try:
        child = subprocess.Popen(argv, env=dict(environment))
    except OSError as error:
        raise StartupError(f"cannot run {argv[0]}: {error.strerror}") from None
    try:
        code = child.wait()
    finally:
        _end(child)
    return code if code >= 0 else BY_SIGNAL - code


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is not None:
        return
    child.terminate()
    try:
        child.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
