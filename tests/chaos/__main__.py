"""Everything is killed, emptied, restarted, cut off and set back in time while leases are asked for.

`python -m tests.chaos --seconds 300` ends with a table; the whole report goes to a file that it names.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from app.settings.timing import timing
from bench import ending
from bench.three_clouds import CLOUDS, Installation
from tests.chaos.plan import Wanted
from tests.chaos.storm import Storm
from tests.chaos.tables import tables
from tests.e2e.cloud import Cloud
from tests.e2e.people import Operator
from tests.e2e.stack import running
from tests.reports import FOLDER, report

SETTINGS = {
    **timing(
        inventory_interval=2,
        watch_interval=0.5,
        sweep_interval=0.25,
        launch_timeout=60,
        boot_timeout=60,
        not_found_grace_seconds=10,
        offerings_interval=10,
        prices_interval=10,
    ),
    "GPULEASE_PROVIDER_RATE_LIMITS": "true",
}
"""In proportion to the simulated clouds, which show a new VM after a second or two, and to prices that move all the time.

Leases that wait for a slot of a provider's rate are launched together, as at the real clouds.
"""


def main() -> int:
    asked = vars(_parser().parse_args())
    workers, path = asked.pop("workers"), asked.pop("report")
    os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
    ending.on_request()
    with (
        tempfile.TemporaryDirectory(prefix="gpulease-chaos-") as folder,
        running(Path(folder), "--workers", workers, settings=SETTINGS) as up,
        Operator(up.credentials.api_url, up.credentials.operator_key) as operator,
        Cloud(up.credentials.cloudsim_url) as cloud,
    ):
        operator.wait_for_offerings(*CLOUDS)
        installation = Installation(operator, cloud, up.credentials.database_url)
        found = Storm(up, installation, Wanted(**asked)).run()
    report(path, {"asked": asked, **found}, *tables(found))
    return 1 if any(found["checks"].values()) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--leases", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=300.0, help="in which they are asked for and faults begin")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--flushes", type=int, default=20)
    parser.add_argument("--restarts", type=int, default=5, help="of PostgreSQL, immediate")
    parser.add_argument("--failovers", type=int, default=1, help="to a standby that lost the newest commits")
    parser.add_argument("--restores", type=int, default=1, help="from a dump")
    parser.add_argument("--workers", default="4", help="worker processes")
    parser.add_argument("--report", type=Path, default=FOLDER / "chaos.json", help="the file for the evidence")
    return parser


if __name__ == "__main__":
    sys.exit(main())
