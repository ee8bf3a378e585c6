"""The serial console of a VM as EC2 keeps it: the last 64 KiB."""

import re
from typing import TYPE_CHECKING

from workers.providers.aws.errors import translated

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client

MOST_BYTES = 64 * 1024

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)", re.DOTALL)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def read(ec2: "EC2Client", vm_id: str) -> str:
    """Clean text, "" when there is none (yet). Raises ProviderError. boto3 undoes the base64 itself."""
    with translated():
        answer = ec2.get_console_output(InstanceId=vm_id, Latest=True)
    return clean(answer.get("Output", ""))


def clean(output: str) -> str:
    """The end of it, 64 KiB of UTF-8 at most, without terminal escapes and control characters; lines end in a line feed."""
    lines = output.replace("\r\n", "\n").replace("\r", "\n")
    text = _CONTROLS.sub("", _ESCAPES.sub("", lines))
    return text.encode("utf-8", "replace")[-MOST_BYTES:].decode("utf-8", "ignore")
