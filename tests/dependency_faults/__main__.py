"""100 creates through the API while Redis or PostgreSQL answers with an error, for each kind of error.

A create that the API refuses is sent again with its key after the fault. Each case prints one JSON line. It fails if a
lease is lost, a VM doubled, a process started anew, or if leases become active much later than without a fault.
"""

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx

from app.domain.tags import TENANT
from app.local.waiting import wait_until
from bench import ending
from tests.dependency_faults.faults import FAULTS, Dependencies
from tests.dependency_faults.faults import running as servers_running
from tests.e2e.cloud import Cloud
from tests.e2e.people import ONE_A10G, Operator, Tenant
from tests.e2e.stack import PATIENCE, Stack, running
from tests.e2e.truth import differences
from tests.reports import FOLDER, Table, report

CREATES = 100
RATE = 20.0
"""Creates a second."""
FAULT_BEGINS, FAULT_LASTS = 1.0, 4.0
"""Seconds after the first create, and seconds. A fault outlasts each time-out of a connection to Redis."""
LONGEST_RECOVERY = 10.0
"""Seconds that leases become active later than without a fault, at most: a new one, and the last of all."""
SETTINGS = {"GPULEASE_CLAIM_SECONDS": "90", "GPULEASE_CALL_TIMEOUT": "30", "GPULEASE_CONNECT_TIMEOUT": "5"}
"""As in an installation, so that no wait for a time-out is hidden."""
_CALLERS = 100
PROGRAMS = ("api", "worker", "inventory")


class Case:
    """One fault, and a tenant of its own."""

    def __init__(self, up: Stack, servers: Dependencies, operator: Operator, cloud: Cloud, name: str) -> None:
        self._up = up
        self._servers = servers
        self._operator = operator
        self._cloud = cloud
        self._name = name
        self._answers: Counter[str] = Counter()
        self._longest = 0.0

    def run(self) -> dict[str, Any]:
        """The figures, and what is `wrong`."""
        before = self._processes()
        tenant = self._operator.tenant(f"case {list(FAULTS).index(self._name)}", CREATES + 1)
        with tenant:
            return self._judge(tenant, before, *self._create_beside_the_fault(tenant))

    def _create_beside_the_fault(self, tenant: Tenant) -> tuple[float, float]:
        """Seconds from the end of the fault until a new lease is active, and until all of them are."""
        keys = [f"{number}" for number in range(CREATES)]
        with ThreadPoolExecutor(_CALLERS) as callers, ExitStack() as fault:
            started = time.monotonic()
            asked = []
            broken_at = None
            for number, key in enumerate(keys):
                due = number / RATE
                if due >= FAULT_BEGINS and broken_at is None:
                    fault.enter_context(FAULTS[self._name](self._servers))
                    broken_at = time.monotonic()
                _sleep_until(started + due)
                asked.append(callers.submit(self._ask, tenant, key))
            assert broken_at is not None
            _sleep_until(broken_at + FAULT_LASTS)
            fault.close()
            over = time.monotonic()
            refused = [key for key, create in zip(keys, asked, strict=True) if not create.result()]
            again = callers.map(lambda key: tenant.create_at_any_rate(ONE_A10G, key), ["afterwards", *refused])
            newest = next(again)
            wait_until(lambda: tenant.lease(newest)["state"] == "active", timeout=PATIENCE, poll=0.1)
            recovered = time.monotonic() - over
        wait_until(lambda: len(tenant.leases("active")) > CREATES, timeout=PATIENCE, poll=0.3)
        return recovered, time.monotonic() - over

    def _ask(self, tenant: Tenant, key: str) -> bool:
        """Whether the lease was created, as far as the caller knows."""
        started = time.monotonic()
        try:
            answer = tenant.ask(ONE_A10G, key)
            self._answers[f"{answer.status_code} {'' if answer.is_success else answer.json()['code']}".strip()] += 1
        except httpx.TransportError as error:
            self._answers[type(error).__name__] += 1
            return False
        finally:
            self._longest = max(self._longest, time.monotonic() - started)
        return answer.is_success

    def _judge(self, tenant: Tenant, before: dict[int, float], recovered: float, settled: float) -> dict[str, Any]:
        states = Counter(lease["state"] for lease in tenant.leases())
        vms = self._cloud.vms(TENANT, tenant.id)
        anew = len(before.items() ^ self._processes().items())
        wrong = [
            *([f"leases: {dict(states)}"] if states != {"active": CREATES + 1} else []),
            *([f"{len(vms)} VMs"] if len(vms) != CREATES + 1 else []),
            *([f"{anew} processes ended or started anew"] if anew else []),
            *(f"{answer}: {count}" for answer, count in self._answers.items() if not _is_clear(answer)),
            *differences(self._operator, self._cloud, self._up.credentials.database_url),
        ]
        tenant.release_all()
        return {
            "fault": self._name,
            "answers": dict(self._answers),
            "longest_answer_s": round(self._longest, 1),
            "recovered_s": round(recovered, 1),
            "settled_s": round(settled, 1),
            "wrong": wrong,
        }

    def _processes(self) -> dict[int, float]:
        return {p.pid: p.create_time() for program in PROGRAMS for p in self._up.processes(program)}


def _late(case: Mapping[str, Any], usual: Mapping[str, Any]) -> list[str]:
    """What took longer after the fault than `usual`, without one."""
    late = {name: case[name] - usual[name] for name in ("recovered_s", "settled_s")}
    return [f"{name}: {seconds:.1f} s later" for name, seconds in late.items() if seconds > LONGEST_RECOVERY]


def _is_clear(answer: str) -> bool:
    """Whether it tells the caller to try again later."""
    return answer.startswith(("201", "429", "503"))


def _sleep_until(moment: float) -> None:
    threading.Event().wait(max(0.0, moment - time.monotonic()))


def main() -> int:
    arguments = _parser().parse_args()
    usual, *others = FAULTS
    names = [usual, *(name for name in others if not arguments.only or any(part in name for part in arguments.only))]
    os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
    ending.on_request()
    with tempfile.TemporaryDirectory(prefix="gpulease-faults-") as text, servers_running(_open(Path(text))) as servers:
        own = {**SETTINGS, "GPULEASE_DATABASE_URL": servers.database_url, "GPULEASE_BROKER_URL": servers.proxy.url}
        with (
            running(Path(text) / "stack", "--workers", "2", "--clouds", "aws", settings=own) as up,
            Operator(up.credentials.api_url, up.credentials.operator_key, patient=True) as operator,
            Cloud(up.credentials.cloudsim_url) as cloud,
        ):
            operator.wait_for_offerings("aws")
            found: list[dict[str, Any]] = []
            for name in names:
                case = Case(up, servers, operator, cloud, name).run()
                found.append(case)
                case["wrong"] += _late(case, found[0])
                print(json.dumps(case), flush=True)
    report(arguments.report, {"cases": found}, _table(found))
    return 1 if any(case["wrong"] for case in found) else 0


def _open(folder: Path) -> Path:
    """PostgreSQL may run as another user, which must be able to reach its data."""
    folder.chmod(0o711)
    (folder / "stack").mkdir()
    return folder


def _table(found: Sequence[dict[str, Any]]) -> Table:
    rows = [
        [one["fault"], ", ".join(f"{n} x {what}" for what, n in one["answers"].items()), one["longest_answer_s"],
         one["recovered_s"], one["settled_s"], "; ".join(one["wrong"]) or "nothing"]
        for one in found
    ]  # fmt: skip
    return Table(
        title="creates beside faults",
        columns=["fault", "answers", "longest (s)", "new lease active after (s)", "all active after (s)", "wrong"],
        rows=rows,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.dependency_faults", description=__doc__)
    parser.add_argument("--only", nargs="+", help="faults whose names contain one of these words")
    parser.add_argument(
        "--report", type=Path, default=FOLDER / "dependency-faults.json", help="the file for the evidence"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
