"""Leases of every kind over three clouds in trouble: does every one end well, and is nothing left behind?

`mixed`: capacities change all the time and a fifth of all calls fail. `outage`: one cloud gives no answer for a while.
The tests run the same in small. What must hold raises AssertionError.
"""

import argparse
import itertools
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from app.local.waiting import wait_until
from bench import report, stack
from tests.e2e.cloud import Cloud, Json
from tests.e2e.people import Operator, Tenant
from tests.e2e.truth import differences

CLOUDS = ("aws", "gcp", "azure")
FAILING_SHARE = 0.2
TRUE_REASONS = frozenset({"capacity_exhausted", "provider_error", "launch_timeout", "boot_timeout"})
"""Why a lease may fail under this weather: for want of capacity, or because its cloud did not do what it was asked."""

_MODES: dict[str, Json] = {
    "error": {},
    "throttle": {},
    "lose_reply": {},
    "delay": {"delay_seconds": 0.5},
    "hang": {"delay_seconds": 5.0},
}
_MARKETS = ("on_demand", "spot", "spot_first")
_KINDS: tuple[Json, ...] = (
    {"gpu": {"model": "A100", "count": 1}},
    {"gpu": {"model": "A100", "count": 8}},
    {"gpu": {"model": "T4", "count": 1}},
    {"gpu": {"model": "H100", "count": 8}},
    {"instance_types": ["g5.xlarge"]},
    {"instance_types": ["g2-standard-4"]},
    {"instance_types": ["Standard_NC24ads_A100_v4"]},
)
_AT: dict[str, Json] = {
    "aws": {"providers": ["aws"], "instance_types": ["g5.xlarge"]},
    "gcp": {"providers": ["gcp"], "instance_types": ["g2-standard-4"]},
    "azure": {"providers": ["azure"], "instance_types": ["Standard_NC24ads_A100_v4"]},
}
_WEATHER_SECONDS = 0.4
_AMPLE_GPUS = 1_000_000
_ASKING = 8


@dataclass(frozen=True)
class Installation:
    """A running stack, and who uses it."""

    operator: Operator
    cloud: Cloud
    database_url: str

    @property
    def places(self) -> list[tuple[str, str]]:
        """(provider, region) of every account."""
        accounts = self.operator.get("/v1/ops/accounts")["items"]
        return [(account["provider"], region["region"]) for account in accounts for region in account["regions"]]

    @contextmanager
    def tenant(self, name: str) -> Iterator[Tenant]:
        """With as many GPUs as it wants. Afterwards nothing of it is left in any cloud, and all sides agree."""
        with self.operator.tenant(name, _AMPLE_GPUS) as tenant:
            yield tenant
            tenant.release_all()
            assert tenant.used() == {}
            assert not wait_for_none(partial(self.cloud.resources_of_tenant, tenant.id))
            assert not wait_for_none(partial(differences, self.operator, self.cloud, self.database_url))


def wait_for_none(found: Callable[[], Sequence[Any]], seconds: float = 20) -> Sequence[Any]:
    """What is still found after so long; sooner when nothing is."""
    wait_until(lambda: not found(), timeout=seconds, poll=0.5)
    return found()


# --- mixed load -------------------------------------------------------------------------------------------


def mixed(installation: Installation, *, leases: int, bad_seconds: float, seed: int = 1) -> dict[str, Any]:
    """`leases` wishes under bad weather for so long; then it clears. Answers how they ended and how long all took."""
    started = time.monotonic()
    with installation.tenant("mixed load") as tenant:
        with _weather(installation.cloud, seed), ThreadPoolExecutor(_ASKING) as pool:
            asked = enumerate(itertools.islice(wishes(), leases))
            made = list(pool.map(lambda pair: tenant.create_at_any_rate(pair[1], f"mixed-{pair[0]}"), asked))
            wait_until(lambda: not on_the_way(tenant), timeout=bad_seconds, poll=0.5)
        assert not wait_for_none(lambda: on_the_way(tenant), seconds=120)
        settled = time.monotonic() - started
        found = {lease["id"]: lease for lease in tenant.leases()}
        assert set(found) == set(made), "a lease was lost, or doubled"
        _reasons_must_be_true(tenant, [lease for lease in found.values() if lease["state"] == "failed"])
        assert not wait_for_none(
            partial(differences, installation.operator, installation.cloud, installation.database_url)
        )
        how_it_went = figures(list(found.values()))
    return {**how_it_went, "settled_seconds": settled, "all_seconds": time.monotonic() - started}


def wishes() -> Iterator[Json]:
    """Every kind in every market, some with patience."""
    for n, (kind, market) in enumerate(itertools.cycle(itertools.product(_KINDS, _MARKETS))):
        wait = 0 if n % 2 else 20
        yield {**kind, "market": market, "name": f"wish {n}", "ttl_seconds": 3600, "wait_seconds": wait}


def on_the_way(tenant: Tenant) -> list[Json]:
    """Leases that are neither active nor over."""
    return tenant.leases("queued", "provisioning", "booting", "releasing")


def _reasons_must_be_true(tenant: Tenant, failed: Sequence[Json]) -> None:
    """Each names a cause that its own attempts show: a refusal for want of room, or trouble with a cloud."""
    for lease in failed:
        code = lease["reason"]["code"]
        assert code in TRUE_REASONS, lease["reason"]
        errors = {attempt["error"]["class"] for attempt in tenant.attempts(lease["id"]) if attempt["error"]}
        if code == "capacity_exhausted" and lease["reason"]["origin"] == "provider":
            assert errors, (lease["reason"], errors)


def figures(leases: Sequence[Json]) -> dict[str, Any]:
    """How many are in which state, why some failed, where the active ones are, and the p95 of seconds to ready."""
    states = Counter(lease["state"] for lease in leases)
    reasons = Counter(lease["reason"]["code"] for lease in leases if lease["state"] == "failed")
    places = Counter(lease["placement"]["provider"] for lease in leases if lease["state"] == "active")
    return {"states": dict(states), "failed_for": dict(reasons), "active_at": dict(places), "p95": p95(leases)}


@contextmanager
def _weather(cloud: Cloud, seed: int) -> Iterator[None]:
    """Calls fail in every mode, and capacities come and go, for the time of the block."""
    calm = threading.Event()
    changing = threading.Thread(target=_change_capacities, args=(cloud, random.Random(seed), calm))
    share = 1 - (1 - FAILING_SHARE) ** (1 / len(_MODES))
    with ExitStack() as faults:
        for provider, (mode, details) in itertools.product(CLOUDS, _MODES.items()):
            faults.enter_context(cloud.fault("*", mode, provider=provider, times=None, probability=share, **details))
        changing.start()
        try:
            yield
        finally:
            calm.set()
            changing.join()
            for provider in CLOUDS:
                cloud.set_capacity(None, provider=provider)


def _change_capacities(cloud: Cloud, chance: random.Random, calm: threading.Event) -> None:
    while not calm.wait(_WEATHER_SECONDS):
        room = chance.choice((0, 0, 1, 3, None))
        cloud.set_capacity(room, provider=chance.choice(CLOUDS), market=chance.choice(("on_demand", "spot")))


# --- one cloud away ---------------------------------------------------------------------------------------


def outage(
    installation: Installation, *, down: str, mode: str, seconds: float, leases: int, there: int
) -> dict[str, Any]:
    """One cloud hangs (`hang`) or answers 5xx (`error`) for so long, while `leases` are asked for at the others.

    `there` leases want the cloud that is away. Answers the p95 of seconds to active of the others, without the fault and
    with it, and how long after the end of the fault the last of those had its VM.
    """
    others = [name for name in CLOUDS if name != down]
    with installation.tenant(f"before the outage {mode}") as tenant:
        before = _ask_steadily(tenant, others, leases, seconds)
    with (
        installation.tenant(f"in the outage {mode}") as tenant,
        installation.tenant(f"of the cloud that is away {mode}") as away,
    ):
        with installation.cloud.fault("*", mode, provider=down, times=None):
            stranded = [away.create({**_AT[down], **_plain(f"away {n}", 600)}) for n in range(there)]
            during = _ask_steadily(tenant, others, leases, seconds)
        back = time.monotonic()
        found = away.wait_for_all("active", there)
        assert {lease["id"] for lease in found} == set(stranded)
        recovered = time.monotonic() - back
    return {"p95_before": p95(before), "p95_during": p95(during), "recovered_seconds": recovered}


def _ask_steadily(tenant: Tenant, clouds: Sequence[str], leases: int, seconds: float) -> list[Json]:
    """Leases at these clouds in turn, spread over so many seconds; all of them, active."""
    started = time.monotonic()
    for n in range(leases):
        wait_until(lambda due=started + n * seconds / leases: time.monotonic() >= due, timeout=seconds)
        tenant.create({**_AT[clouds[n % len(clouds)]], **_plain(f"here {n}", 60)})
    return tenant.wait_for_all("active", leases)


def _plain(name: str, wait: int) -> Json:
    return {"name": name, "market": "on_demand", "ttl_seconds": 3600, "wait_seconds": wait}


def p95(leases: Sequence[Json]) -> float:
    """Seconds from the wish to a VM that is ready, within which 95 % of those that have one had it."""
    times = sorted(_moment(lease, "ready_at") - _moment(lease, "created_at") for lease in leases if lease["ready_at"])
    return times[max(0, -(-95 * len(times) // 100) - 1)]


def _moment(lease: Json, name: str) -> float:
    return datetime.fromisoformat(lease[name]).timestamp()


# --- command ----------------------------------------------------------------------------------------------


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.three_clouds", description=__doc__)
    parser.add_argument("--leases", type=int, default=300, help="of the mixed load, and of each run around an outage")
    parser.add_argument("--seconds", type=float, default=120.0, help="of bad weather, and of the outage")
    parser.add_argument("--down", choices=CLOUDS, default="gcp", help="the cloud that goes away")
    arguments = parser.parse_args()
    for run in (_run_mixed, _run_outage):
        with _installation() as installation:
            run(installation, arguments)


def _run_mixed(installation: Installation, arguments: argparse.Namespace) -> None:
    found = mixed(installation, leases=arguments.leases, bad_seconds=arguments.seconds)
    report.figure(
        f"{arguments.leases} leases at three clouds, {FAILING_SHARE:.0%} of calls failing: all active or failed",
        found["settled_seconds"],
        "s",
        ("bad weather at most", arguments.seconds),
        **found,
    )


def _run_outage(installation: Installation, arguments: argparse.Namespace) -> None:
    for mode in ("hang", "error"):
        found = outage(
            installation,
            down=arguments.down,
            mode=mode,
            seconds=arguments.seconds,
            leases=arguments.leases,
            there=arguments.leases // 4,
        )
        report.figure(
            f"{arguments.down} away for {arguments.seconds:g} s ({mode}): p95 to active at the others",
            found["p95_during"],
            "s",
            ("the same without the fault", found["p95_before"]),
            **found,
        )


@contextmanager
def _installation() -> Iterator[Installation]:
    settings = {"inventory_interval": "2", "call_timeout": "3", "connect_timeout": "1", "claim_seconds": "8"}
    with (
        stack.running("--profile", "fast", "--workers", "2", **settings) as up,
        Operator(up.api_url, up.operator_key) as operator,
        Cloud(up.cloudsim_url) as cloud,
    ):
        operator.wait_for_offerings(*CLOUDS)
        yield Installation(operator, cloud, up.database_url)


if __name__ == "__main__":
    os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
    main()
