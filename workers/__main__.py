"""`python -m workers worker|inventory|check|deadman|prices|reconcile`."""

import gc
import sys

if __name__ == "__main__":
    # a sixth of the start; `settle_memory` switches it on
    gc.disable()
    from workers.process.main import main

    sys.exit(main(sys.argv[1:]))
