"""How long one page of 1,000 takes when 100,000 instances are listed by tag.

Cold: the page's instances changed since they were last listed. Warm: they did not. Baseline: 3.5 s, measured
for a page of 1,000 of moto 5.2.5.
"""

import argparse
import statistics
import time

from bench import report
from cloudsim.testing import own_process
from tests.cloudsim.listing import pages

COUNT = 100_000
REGION = "us-east-1"
FILTER = {"Filter.1.Name": "tag:installation", "Filter.1.Value.1": "bench"}


def seconds_per_page(url: str) -> list[float]:
    """Wall time of each page, sending and receiving included."""
    times, count = [], 0
    listing = pages(url, REGION, FILTER)
    while True:
        started = time.perf_counter()
        page = next(listing, None)
        if page is None:
            break
        times.append(time.perf_counter() - started)
        count += len(page)
    if count != COUNT:
        raise SystemExit(f"{count} of {COUNT} instances were listed")
    return times


def main() -> None:
    """Print two figures."""
    argparse.ArgumentParser(prog="python -m bench.cloudsim_listing", description=__doc__).parse_args()
    with own_process() as (_, sim):
        sim.plant(region=REGION, instance_type="g5.xlarge", tags={"installation": "bench"}, count=COUNT)
        cold, warm = seconds_per_page(sim.url), seconds_per_page(sim.url)
    what, moto = (
        "cloudsim DescribeInstances, page of 1,000 of 100,000 by tag, median",
        ("moto 5.2.5, measured apart", 3.5),
    )
    report.figure(what, statistics.median(cold), "s", moto, slowest=max(cold))
    report.figure(f"{what}, listed before", statistics.median(warm), "s", moto, slowest=max(warm))


if __name__ == "__main__":
    main()
