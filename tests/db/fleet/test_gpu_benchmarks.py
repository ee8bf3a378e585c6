"""Benchmarks of GPUs: stored once for an attempt, and summed up without mixing versions."""

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import update

from app.db.fleet import gpu_benchmarks
from app.db.schema.tables import event, gpu_benchmark
from app.domain.gpus.benchmarks import Benchmark, MeasuredGpu, MeasuredPerformance
from app.domain.ids import AttemptId, TenantId
from tests.db.store import Store, ago

QUICK = {"ttl_seconds": 3600, "image": None, "benchmark": "quick"}


def attempt(
    store: Store, *, gpus: int = 1, request: dict[str, Any] | None = None, tenant: TenantId | None = None, **values: Any
) -> AttemptId:
    lease_id = store.lease(request=request or QUICK, tenant_id=tenant or store.tenant_id)
    return store.attempt(lease_id, "known", offering={"gpu": {"model": "A10G", "count": gpus}}, **values)


def measured(*tflops: float | None, driver: str = "570", prefix: str = "GPU-", **values: Any) -> Benchmark:
    gpus = tuple(MeasuredGpu(uuid=f"{prefix}{n}", bf16_tflops=value) for n, value in enumerate(tflops))
    return Benchmark(agent="1.0", driver_version=driver, libraries={"cublas": "12.8"}, gpus=gpus, **values)


def report(store: Store, attempt_id: AttemptId, benchmark: Benchmark, *, is_evidence: bool = True) -> int:
    """Stores a benchmark as the API does. Answers how many rows it made."""
    rows = store.all(gpu_benchmarks.insertion(attempt_id, benchmark, is_evidence=is_evidence))
    if rows:
        store.run(gpu_benchmarks.append_event(rows[0], benchmark))
    return len(rows)


def shown(store: Store) -> dict[tuple[str, str], MeasuredPerformance]:
    return dict(gpu_benchmarks.performance_by_type(store.all(gpu_benchmarks.counted())))


def test_a_benchmark_is_stored_once_with_its_event(store: Store) -> None:
    here = attempt(store, gpus=2)
    assert report(store, here, measured(120.0, 118.5, allreduce_gbps=30.0)) == 2
    assert report(store, here, measured(999.0, 999.0)) == 0, "the first report stays"
    rows = store.rows(gpu_benchmark)
    assert sorted(row.bf16_tflops for row in rows) == [118.5, 120.0]
    assert {(row.provider, row.instance_type, row.gpu_model, row.counted, row.n) for row in rows} == {
        ("aws", "g5.xlarge", "A10G", True, 1)
    }
    (recorded,) = store.rows(event)
    assert recorded.type == "lease.benchmark"
    assert (recorded.data["gpus"], recorded.data["bf16_tflops"], recorded.data["allreduce_gbps"]) == (2, 118.5, 30.0)


@pytest.mark.parametrize(
    ("request_", "gpus"),
    [({"ttl_seconds": 3600, "benchmark": "off"}, 1), ({"ttl_seconds": 3600}, 1), (QUICK, 2)],
    ids=["not requested", "by default", "more GPUs than the VM has"],
)
def test_what_nobody_requested_or_cannot_be_is_not_stored(store: Store, request_: dict[str, Any], gpus: int) -> None:
    assert report(store, attempt(store, request=request_), measured(*[100.0] * gpus)) == 0
    assert (store.rows(gpu_benchmark), store.rows(event)) == ([], [])


def test_an_ended_attempt_stores_nothing(store: Store) -> None:
    here = store.attempt(
        store.lease(request=QUICK), "refused", offering={"gpu": {"model": "A10G", "count": 1}}, ended_at=ago("1 minute")
    )
    assert report(store, here, measured(100.0)) == 0


def test_the_set_of_versions_with_which_a_tenant_measured_last_alone_is_summed_up(store: Store) -> None:
    report(store, attempt(store, gpus=3), measured(50.0, 50.0, 50.0, driver="550"))
    store.run(update(gpu_benchmark).values(measured_at=ago("1 day")))
    report(store, attempt(store), measured(100.0, prefix="GPU-a"))
    report(store, attempt(store, gpus=2), measured(110.0, 130.0, prefix="GPU-b"))
    assert shown(store) == {("aws", "g5.xlarge"): MeasuredPerformance(bf16_tflops_p50=110.0, n=3, driver_version="570")}


def honest(store: Store) -> None:
    """Three reports of the store's tenant, a day old."""
    for n in range(3):
        report(store, attempt(store), measured(78.0, prefix=f"GPU-{n}-"))
    store.run(update(gpu_benchmark).values(measured_at=ago("1 day")))


HONEST = MeasuredPerformance(bf16_tflops_p50=78.0, n=3, driver_version="570")


@pytest.mark.parametrize("reports", [1, 3, 50])
@pytest.mark.parametrize(
    "forged",
    [{"agent": "x"}, {"driver_version": "999"}, {"driver_version": None}, {"libraries": {}}],
    ids=["agent", "driver", "no driver", "libraries"],
)
def test_versions_that_one_tenant_names_do_not_take_the_place_of_others(
    store: Store, reports: int, forged: dict[str, Any]
) -> None:
    honest(store)
    hostile = store.tenant()
    for n in range(reports):
        report(store, attempt(store, tenant=hostile), replace(measured(9000.0, prefix=f"GPU-x{n}-"), **forged))
    assert shown(store)["aws", "g5.xlarge"] == HONEST


def test_a_tenant_has_one_vote_whatever_it_reports(store: Store) -> None:
    """Neither the number of its reports nor the UUIDs of others' GPUs move the result upwards."""
    honest(store)
    second, hostile = store.tenant(), store.tenant()
    report(store, attempt(store, tenant=hostile, gpus=8), measured(*[9000.0] * 8, prefix="GPU-0-"))
    assert shown(store)["aws", "g5.xlarge"].bf16_tflops_p50 == 78.0, "the lower one of two tenants"
    report(store, attempt(store, tenant=second), measured(80.0, prefix="GPU-c"))
    for n in range(20):
        report(store, attempt(store, tenant=hostile), measured(9000.0, prefix=f"GPU-x{n}-"))
    assert shown(store)["aws", "g5.xlarge"].bf16_tflops_p50 == 80.0, "the median of three tenants"


def test_new_versions_count_once_two_tenants_have_sent_three_reports(store: Store) -> None:
    honest(store)
    second = store.tenant()
    report(store, attempt(store, tenant=second), measured(90.0, driver="580", prefix="GPU-a"))
    report(store, attempt(store, tenant=store.tenant()), measured(92.0, driver="580", prefix="GPU-b"))
    assert shown(store)["aws", "g5.xlarge"] == HONEST, "two reports"
    report(store, attempt(store, tenant=second), measured(94.0, driver="580", prefix="GPU-c"))
    assert shown(store)["aws", "g5.xlarge"] == MeasuredPerformance(bf16_tflops_p50=92.0, n=3, driver_version="580")
    report(store, attempt(store), measured(9000.0, driver="999", prefix="GPU-d"))
    assert shown(store)["aws", "g5.xlarge"].driver_version == "580", "the first tenant has measured with others since"


def test_what_is_no_evidence_is_shown_to_its_tenant_alone(store: Store) -> None:
    assert report(store, attempt(store), measured(78.0), is_evidence=False) == 1
    assert ([row.type for row in store.rows(event)], shown(store)) == (["lease.benchmark"], {})


def test_a_gpu_counts_once_with_its_newest_result(store: Store) -> None:
    report(store, attempt(store), measured(100.0))
    store.run(update(gpu_benchmark).values(measured_at=ago("1 day")))
    report(store, attempt(store), measured(120.0))
    assert shown(store)["aws", "g5.xlarge"] == MeasuredPerformance(bf16_tflops_p50=120.0, n=1, driver_version="570")


def test_results_of_a_tenants_own_image_do_not_count(store: Store) -> None:
    report(store, attempt(store, request={**QUICK, "image": "mine"}), measured(9000.0))
    report(store, attempt(store, instance_type="p4d.24xlarge"), measured(None))
    assert len(store.rows(gpu_benchmark)) == 2
    assert shown(store) == {}
