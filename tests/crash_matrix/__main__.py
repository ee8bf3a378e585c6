"""Runs the crash matrix, or a part: `python -m tests.crash_matrix --clouds aws --actions kill,hang --every 5`.

One point many times: `--points batches.send._call:launch_batch:after --actions kill --repeat 100`.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from zlib import crc32

from app.settings.timing import timing
from bench import ending
from tests.crash_matrix.matrix import Case, Stage, batches, drawn, rehearse, run
from tests.crash_matrix.scenarios import SCENARIOS
from tests.crash_matrix.summary import described, table
from tests.crash_matrix.turns import is_leaders, repeated, run_in_turn, turns
from tests.e2e.cloud import Cloud
from tests.e2e.people import Operator
from tests.e2e.stack import running
from tests.failpoints.actions import Action
from tests.failpoints.points import names
from tests.reports import FOLDER, write_evidence

_TRIES = 3
_DISK_SECONDS = 3.0

SETTINGS = {
    **timing(
        unknown_retry_seconds=6,
        unreachable_seconds=3,
        settle_seconds=8,
        settle_gap_seconds=1,
        not_found_grace_seconds=5,
        rowless_grace_seconds=3,
        boot_timeout=45,
        launch_timeout=60,
        cool_off_capacity_seconds=2,
        cool_off_quota_seconds=2,
        cool_off_unoffered_seconds=4,
    ),
    # an eighth of them may be at a slow cloud at once: room for every case of a batch that hangs or is late there
    "GPULEASE_WORKER_THREADS": "160",
    "GPULEASE_PROVIDER_RATE_LIMITS": "true",
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash_matrix", description=__doc__)
    parser.add_argument("--clouds", default="aws,gcp,azure", type=lambda text: text.split(","))
    parser.add_argument(
        "--actions", default=",".join(Action), type=lambda text: [Action(one) for one in text.split(",")]
    )
    parser.add_argument("--scenarios", default=",".join(SCENARIOS), type=lambda text: text.split(","))
    parser.add_argument("--only", type=lambda text: text.split(","), help="cases of these scenarios; all are rehearsed")
    parser.add_argument("--points", type=lambda text: text.split(","), help="cases of these points")
    parser.add_argument("--repeat", type=int, default=0, help="so many cases of each of --points at each cloud")
    parser.add_argument("--every", type=int, default=1, help="one case of n; 4: each point once at each cloud")
    parser.add_argument("--seed", type=int, default=1, help="chooses them")
    parser.add_argument(
        "--part", default="1/1", type=part, help="of several runs side by side: 2/4 is the second quarter"
    )
    parser.add_argument("--batch", type=int, default=30, help="cases side by side")
    parser.add_argument("--workers", default="2", help="worker processes")
    parser.add_argument("--again", type=Path, help="a report: only the cases whose points were not reached then")
    parser.add_argument(
        "--report", type=Path, default=FOLDER / "crash-matrix.json", help="where the evidence is written, as JSON"
    )
    asked = parser.parse_args()
    if asked.repeat and not asked.points:
        parser.error("--repeat needs --points")
    os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
    ending.on_request()
    arguments = ("--workers", asked.workers, "--clouds", ",".join(asked.clouds))
    with (
        tempfile.TemporaryDirectory(prefix="gpulease-crash-") as folder,
        running(Path(folder), *arguments, settings=SETTINGS) as up,
        Operator(up.credentials.api_url, up.credentials.operator_key, patient=True) as operator,
        Cloud(up.credentials.cloudsim_url) as cloud,
    ):
        operator.wait_for_offerings(*asked.clouds)
        cloud.make_disks_take(_DISK_SECONDS)
        stage = Stage(up, operator, cloud, asked.clouds)
        began = time.monotonic()
        places = set() if asked.repeat else rehearse(stage, asked.scenarios)
        print(f"rehearsed in {time.monotonic() - began:.0f} s: {len(places)} places", flush=True)
        number, parts = asked.part
        if asked.repeat:
            cases = repeated(asked.points, asked.clouds, asked.actions, asked.repeat)
        else:
            cases = wanted(drawn(places, asked.actions, asked.every, asked.seed), asked.again)
            cases = [case for case in cases if case.scenario in (asked.only or SCENARIOS)]
            cases = [case for case in cases if case.place.point in (asked.points or names())]
        cases = [case for case in cases if crc32(case.name.encode()) % parts == number - 1]
        document = described(places, cases, 0.0)
        for _ in (run_repeated if asked.repeat else run_all)(stage, cases, asked.batch):
            # written each time, so that a run that is ended early has told what it found
            document = described(places, cases, time.monotonic() - began)
            write_evidence(asked.report, document)
    print(table(document, asked.report.resolve()))
    return 1 if document["summary"]["wrong"] or document["summary"]["not_hit"] else 0


def part(text: str) -> tuple[int, int]:
    """`2/4` as (2, 4). Which part a case belongs to depends on its name alone, so all parts together are the whole."""
    number, _, parts = text.partition("/")
    if not 1 <= int(number) <= int(parts):
        raise argparse.ArgumentTypeError(f"{text}: the first number goes from 1 to the second")
    return int(number), int(parts)


def wanted(cases: list[Case], again: Path | None) -> list[Case]:
    """All, or those of an earlier report whose points were not reached."""
    if again is None:
        return cases
    missed = set(json.loads(again.read_text(encoding="utf-8"))["summary"]["not_hit"])
    return [case for case in cases if case.name in missed]


def run_all(stage: Stage, cases: Sequence[Case], size: int) -> Iterator[None]:
    """Each case once, and those whose point was not reached twice more. Gives way after each batch.

    What a leader reaches for its batch is tried again in turn: side by side, few of the armed leases lead.
    """
    for tries in range(_TRIES):
        todo = [case for case in cases if not case.hit]
        for batch in turns([case for case in todo if tries and is_leaders(case)], size):
            _tell(batch, run_in_turn(stage, batch))
            yield
        others = [case for case in todo if not (tries and is_leaders(case))]
        for case in others:
            case.move_on(tries)
        for batch in batches(others, size):
            _tell(batch, run(stage, batch))
            yield


def run_repeated(stage: Stage, cases: Sequence[Case], size: int) -> Iterator[None]:
    """The same for cases that come in turn."""
    for _ in range(_TRIES):
        for batch in turns([case for case in cases if not case.hit], size):
            _tell(batch, run_in_turn(stage, batch))
            yield


def _tell(batch: Sequence[Case], seconds: float) -> None:
    hit, wrong = sum(case.hit for case in batch), sum(bool(case.wrong) for case in batch)
    print(f"{batch[0].scenario}: {hit} of {len(batch)} reached, {wrong} wrong, {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
