"""The service on real servers, as its documentation says: Debian's PostgreSQL, Redis, PgBouncer, HAProxy and sshd, two hosts, launchers, the image.

What this machine cannot try is named with its reason. Traffic stays on loopback and on networks of the trial's own; only
the base of the image and its packages come from outside. Needs root and, in all,
apt-get install postgresql-15 redis-server pgbouncer haproxy iproute2 openssh-client openssh-server openmpi-bin ansible-core
slurm-client buildah debootstrap runc.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import psycopg

from bench import ending, report
from tests.deployment.database import Check, DatabaseTrial, prepare
from tests.deployment.groups import groups_trial
from tests.deployment.hosts import hosts_trial
from tests.deployment.image import ImageTrial
from tests.deployment.installation import Installation, Passwords, clouds
from tests.deployment.needs import Needs, can_unshare, find_program, program
from tests.deployment.network import two_hosts
from tests.deployment.pages import pages_trial
from tests.deployment.poolers import PoolerTrial
from tests.deployment.processes import TrialError
from tests.deployment.results import Outcome, Result, exit_code, read_results, table
from tests.deployment.servers import open_folder, postgres, redis_server
from tests.deployment.ssh import ssh_trial
from tests.harness.databases import ROOT


@dataclass(frozen=True)
class Part:
    """`private`: in a network namespace of its own, where the machine permits one."""

    needs: Needs
    private: bool = True


PARTS: Mapping[str, Part] = {
    "database": Part(Needs(("initdb", "redis-server"))),
    "pooler": Part(Needs(("initdb", "redis-server", "pgbouncer"))),
    "hosts": Part(Needs(("initdb", "redis-server", "haproxy", "ip"))),
    "ssh": Part(Needs(("sshd", "ssh", "ssh-keygen", "scp"))),
    "groups": Part(
        Needs(
            ("ip", "sshd", "ssh", "ssh-keygen", "mpirun", "ansible", "ansible-inventory", "scontrol"), namespaces=True
        )
    ),
    "pages": Part(Needs(()), private=False),
    "image": Part(Needs(("initdb", "redis-server", "buildah", "debootstrap", "runc")), private=False),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.deployment", description=__doc__)
    parser.add_argument(
        "--parts", default=",".join(PARTS), help="some of them, with commas between (default: %(default)s)"
    )
    parser.add_argument("--report", type=Path, default=Path("deployment.json"), help="the file for the evidence")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    unknown = set(asked.parts.split(",")) - PARTS.keys()
    if unknown:
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    chosen = [part for part in PARTS if part in asked.parts.split(",")]
    os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
    ending.on_request()
    results = [result for part in chosen for result in (_try(part) if asked.inside else _try_in_its_place(part))]
    evidence = {
        "results": [result.as_json() for result in results],
        "machine": report.machine(),
        "commit": report.commit(),
    }
    asked.report.write_text(json.dumps(evidence, indent=1) + "\n", encoding="utf-8")
    if not asked.inside:
        print(f"\n{table(results)}\nevidence: {asked.report}")
    return exit_code(results)


def _try_in_its_place(part: str) -> list[Result]:
    reasons = PARTS[part].needs.missing(uid=os.getuid())
    if reasons:
        return [_not_tried(part, "all of it", "; ".join(reasons))]
    if not PARTS[part].private or find_program("ip") is None or not can_unshare():
        return _try(part)
    with tempfile.TemporaryDirectory(prefix="gpulease-deployment-") as folder:
        file = Path(folder) / "report.json"
        script = f'{program("ip")} link set lo up && exec "$@"'
        inside = [sys.executable, "-m", "tests.deployment", "--inside", "--parts", part, "--report", str(file)]
        _run_to_its_end([program("unshare"), "--net", "/bin/sh", "-c", script, "sh", *inside])
        if not file.exists():
            return [Result(part=part, what="all of it", outcome=Outcome.FAILED, detail="it ended without a report")]
        return read_results(json.loads(file.read_text(encoding="utf-8"))["results"])


def _run_to_its_end(command: list[str]) -> None:
    """When this process is asked to end, so is the command, which then takes down what it started."""
    with subprocess.Popen(command, cwd=ROOT) as child:
        try:
            child.wait()
        except BaseException:
            child.terminate()
            raise


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A part with its servers up. `figures` fill while the checks run; `absent` are checks this machine does not permit."""

    checks: Mapping[str, Check]
    figures: Mapping[str, Any] = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)


def _try(part: str) -> list[Result]:
    """Its checks one after the other. All are run: one that fails for what another left undone says so."""
    results: list[Result] = []
    began = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="gpulease-deployment-") as name:
            folder = Path(name)
            open_folder(folder)
            with _prepared(part, folder) as trial:
                for what, check in trial.checks.items():
                    outcome, detail = _run(check)
                    seconds = time.monotonic() - began
                    results.append(Result(part=part, what=what, outcome=outcome, detail=detail, seconds=seconds))
                    print(f"{outcome:<9}  {part:<8}  {what} ({seconds:.0f} s)", flush=True)
                    began = time.monotonic()
                results[-1] = replace(results[-1], figures=dict(trial.figures))
                results += [_not_tried(part, what, why) for what, why in trial.absent.items()]
    except TrialError as error:
        results.append(Result(part=part, what="servers and set-up", outcome=Outcome.FAILED, detail=str(error)))
    return results


def _run(check: Check) -> tuple[Outcome, str]:
    try:
        return Outcome.OK, check()
    except (TrialError, AssertionError, httpx.HTTPError, psycopg.Error) as error:
        return Outcome.FAILED, f"{type(error).__name__}: {error}"


def _not_tried(part: str, what: str, why: str) -> Result:
    return Result(part=part, what=what, outcome=Outcome.NOT_TRIED, detail=why)


@contextmanager
def _prepared(part: str, folder: Path) -> Iterator[Trial]:
    if part == "hosts":
        with _hosts(folder) as trial:
            yield trial
        return
    if part == "ssh":
        with ssh_trial(folder) as logins:
            yield Trial(checks=logins.checks())
        return
    if part == "groups":
        with groups_trial(folder) as launchers:
            yield Trial(checks=launchers.checks())
        return
    if part == "pages":
        with pages_trial(folder) as pages:
            yield Trial(checks=pages.checks())
        return
    with ExitStack() as stack:
        installation = _installation(folder, stack)
        if part == "database":
            yield Trial(checks=DatabaseTrial(installation).checks())
        elif part == "pooler":
            prepare(installation)
            yield Trial(checks=PoolerTrial(installation).checks())
        else:
            image = ImageTrial(installation, folder / "image")
            stack.callback(image.close)
            yield Trial(checks=image.checks())


@contextmanager
def _hosts(folder: Path) -> Iterator[Trial]:
    with ExitStack() as stack:
        network = stack.enter_context(two_hosts()) if can_unshare() else None
        trial = stack.enter_context(hosts_trial(folder, network))
        checks = stack.enter_context(trial.ready())
        absent = {} if network else {"host B cut off for two minutes": "this machine permits no network namespaces"}
        yield Trial(checks=checks, figures=trial.figures, absent=absent)


def _installation(folder: Path, stack: ExitStack) -> Installation:
    return Installation(
        folder=folder,
        postgres=stack.enter_context(postgres(folder)),
        broker_url=stack.enter_context(redis_server(folder)),
        cloud_url=stack.enter_context(clouds(folder)),
        passwords=Passwords(),
    )


if __name__ == "__main__":
    sys.exit(main())
