"""What a VM prints on its serial console, made fit to be shown."""

import re

MOST_BYTES = 64 * 1024

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)", re.DOTALL)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def clean(output: str) -> str:
    """The end of it, 64 KiB of UTF-8 at most, without terminal escapes and control characters; lines end in a line feed."""
    lines = output.replace("\r\n", "\n").replace("\r", "\n")
    text = _CONTROLS.sub("", _ESCAPES.sub("", lines))
    return text.encode("utf-8", "replace")[-MOST_BYTES:].decode("utf-8", "ignore")
