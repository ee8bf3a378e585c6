"""`python -m cloudsim.gpus.child STATE AGENT args…`: the agent against the fake NVML, for as long as its parent lives.

The parent holds the other end of standard input: the agent ends with it, however the parent ends.
"""

from __future__ import annotations

import os
import sys
import threading

from cloudsim.gpus import fake_nvml

_NICENESS = 10


def _end_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(0)


def main() -> int:
    """Runs the agent. Returns its exit status."""
    os.nice(_NICENESS)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    return fake_nvml.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
