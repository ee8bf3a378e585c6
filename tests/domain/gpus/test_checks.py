"""What is found in a report of GPUs, against what the offering promises."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.gpus.checks import (
    MOST_FINDINGS,
    ExpectedGpus,
    bad_uuids,
    has_failed,
    is_fatal,
    is_model,
    judge,
    judge_health,
    judge_xids,
)
from app.domain.gpus.findings import Finding, HealthStatus, Severity, health_status
from app.domain.gpus.reports import AgentError, GpuReport, GpuState, Matmul, Proof, RecoveryAction, Xid
from app.domain.gpus.xids import XIDS
from app.domain.offerings import GpuVendor, Interconnect
from tests.domain.samples import NOW

EIGHT = ExpectedGpus(model="A100", count=8, memory_gib=40, interconnect=Interconnect.NVSWITCH)
ONE = ExpectedGpus(model="A10G", count=1, memory_gib=24)


def gpu(n: int = 0, **changes: Any) -> GpuState:
    facts: dict[str, Any] = {
        "index": n,
        "uuid": f"GPU-{n}",
        "model": "NVIDIA A100-SXM4-40GB",
        "memory_mib": 40960,
        "recovery_action": RecoveryAction.NONE,
        "nvlinks": 12,
        "nvlinks_up": 12,
    }
    return GpuState(**{**facts, **changes})


def a10g(**changes: Any) -> GpuState:
    return gpu(model="NVIDIA A10G", memory_mib=23028, nvlinks=None, nvlinks_up=None, **changes)


def proof(*gpus: GpuState, xids: tuple[Xid, ...] = ()) -> Proof:
    return Proof(agent="1.0", at=NOW, gpus=gpus, xids=xids)


def eight(**of_the_last: Any) -> tuple[GpuState, ...]:
    return (*(gpu(n) for n in range(7)), gpu(7, **of_the_last))


def found(one: Proof, expected: ExpectedGpus = EIGHT) -> list[tuple[str, Severity, str | None]]:
    return [(finding.code, finding.severity, finding.gpu) for finding in judge(one, expected)]


def test_healthy_gpus_have_no_finding() -> None:
    assert found(proof(*eight())) == []
    assert found(proof(a10g()), ONE) == []


def test_a_missing_gpu_is_fatal() -> None:
    (finding,) = judge(proof(*eight()[:7]), EIGHT)
    assert (finding.code, finding.severity, finding.message) == (
        "gpu_missing",
        Severity.FATAL,
        "7 of 8 GPUs are visible",
    )


@pytest.mark.parametrize(
    ("changes", "code", "severity"),
    [
        ({"remap_failed": True}, "remap_failed", Severity.FATAL),
        ({"remap_pending": True}, "remap_pending", Severity.DEGRADED),
        ({"matmul": Matmul.FAILED}, "matmul_failed", Severity.FATAL),
        ({"model": "Tesla K80"}, "wrong_model", Severity.FATAL),
        ({"memory_mib": 20480}, "too_little_memory", Severity.FATAL),
        ({"recovery_action": RecoveryAction.RESET}, "recovery_action", Severity.REBOOT),
        ({"recovery_action": RecoveryAction.REBOOT}, "recovery_action", Severity.REBOOT),
        ({"recovery_action": RecoveryAction.DRAIN_P2P}, "recovery_action", Severity.REBOOT),
        ({"recovery_action": RecoveryAction.DRAIN_AND_RESET}, "recovery_action", Severity.REBOOT),
        ({"nvlinks_up": 11}, "nvlink_down", Severity.REBOOT),
        ({"nvlinks_up": 0}, "nvlink_down", Severity.REBOOT),
    ],
)
def test_a_broken_gpu_is_named(changes: dict[str, Any], code: str, severity: Severity) -> None:
    assert found(proof(*eight(**changes))) == [(code, severity, "GPU-7")]


@pytest.mark.parametrize(
    "changes",
    [
        {"ecc_uncorrected": 3},
        {"recovery_action": RecoveryAction.UNKNOWN},
        {"recovery_action": None, "remap_failed": None},
        {"matmul": Matmul.SKIPPED},
        {"model": None, "memory_mib": None, "uuid": None},
        {"nvlinks_up": None},
    ],
)
def test_what_is_recovered_or_unknown_is_no_finding(changes: dict[str, Any]) -> None:
    assert found(proof(*eight(**changes))) == []


def test_links_that_are_down_on_every_gpu_alike_wear_the_health_only() -> None:
    alike = tuple(gpu(n, nvlinks_up=11) for n in range(8))
    assert {severity for _, severity, _ in found(proof(*alike))} == {Severity.DEGRADED}


def test_in_a_mesh_only_a_gpu_without_any_link_is_broken() -> None:
    mesh = ExpectedGpus(model="A100", count=8, memory_gib=40, interconnect=Interconnect.NVLINK)
    assert found(proof(*eight(nvlinks_up=4)), mesh) == []
    assert found(proof(*eight(nvlinks_up=0)), mesh) == [("nvlink_down", Severity.REBOOT, "GPU-7")]


def test_a_type_without_nvlink_is_not_asked_for_links() -> None:
    assert found(proof(gpu(model="A10G", nvlinks_up=0)), ONE) == []


def test_no_gpu_at_all_is_a_missing_driver_that_a_tenants_own_image_may_lack() -> None:
    own = ExpectedGpus(model="A10G", count=1, memory_gib=24, own_image=True)
    assert found(proof(), ONE) == [("no_driver", Severity.FATAL, None)]
    assert found(proof(), own) == [("no_driver", Severity.SHOWN, None)]


def test_a_gpu_that_failed_lately_is_recognised() -> None:
    expected = ExpectedGpus(model="A10G", count=1, memory_gib=24, known_bad=frozenset({"GPU-0"}))
    assert found(proof(a10g()), expected) == [("known_bad_gpu", Severity.FATAL, "GPU-0")]


@pytest.mark.parametrize(
    ("reported", "model"),
    [
        ("NVIDIA A100-SXM4-40GB", "A100"),
        ("NVIDIA A10G", "A10G"),
        ("NVIDIA A10-4Q", "A10"),
        ("Tesla V100-SXM2-16GB", "V100"),
        ("Tesla T4", "T4"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000"),
        ("NVIDIA RTX Pro 6000 Blackwell DC-4-96Q", "RTX PRO 6000"),
        ("AMD Instinct MI300X VF", "MI300X"),
    ],
)
def test_the_drivers_names_are_those_of_the_catalogues_models(reported: str, model: str) -> None:
    assert is_model(reported, model)


@pytest.mark.parametrize(
    ("reported", "model"), [("NVIDIA A100-SXM4-40GB", "A10"), ("NVIDIA A10G", "A10"), ("NVIDIA L40S", "L4")]
)
def test_a_similar_name_is_another_model(reported: str, model: str) -> None:
    assert not is_model(reported, model)


def test_an_unknown_name_of_an_amd_gpu_is_shown_only() -> None:
    expected = ExpectedGpus(model="MI300X", count=1, memory_gib=192, vendor=GpuVendor.AMD)
    seen = gpu(model="0x74b5", memory_mib=196592, nvlinks=None, nvlinks_up=None)
    assert found(proof(seen), expected) == [("wrong_model", Severity.SHOWN, "GPU-0")]


@pytest.mark.parametrize(
    ("memory_gib", "memory_mib"),
    [(16, 15360), (24, 22731), (48, 46068), (80, 81559), (141, 143771), (180, 183359), (288, 275040)],
)
def test_the_memory_that_drivers_report_of_whole_gpus_is_enough(memory_gib: int, memory_mib: int) -> None:
    expected = ExpectedGpus(model="A10G", count=1, memory_gib=memory_gib)
    assert found(proof(gpu(model="A10G", memory_mib=memory_mib)), expected) == []


# --- Xids -------------------------------------------------------------------------------------------------------


def severity_of(code: int, action: RecoveryAction | None = None) -> Severity:
    (finding,) = judge_xids([Xid(code=code)], [a10g(recovery_action=action)], ONE)
    assert (finding.code, finding.gpu) == (f"xid_{code}", "GPU-0")
    return finding.severity


BY_SEVERITY = {
    Severity.FATAL: {79, 64, 140, 143, 158, 54},
    Severity.REBOOT: {48, 95, 74, 119, 120, 62, 46, *range(144, 151)},
    Severity.DEGRADED: {63, 92, 94},
    Severity.SHOWN: {13, 31, 43, 45, 68, 69, 109, 154},
}


def test_the_table_is_that_of_the_documentation() -> None:
    assert {s: {code for code, rule in XIDS.items() if rule.severity is s} for s in Severity} == BY_SEVERITY


def test_an_xid_has_the_severity_of_the_table() -> None:
    assert {code: severity_of(code) for code in XIDS} == {code: rule.severity for code, rule in XIDS.items()}


def test_an_unknown_xid_is_shown() -> None:
    assert severity_of(4711) is Severity.SHOWN


@pytest.mark.parametrize("code", sorted(BY_SEVERITY[Severity.REBOOT]))
def test_the_drivers_own_answer_counts_more_than_an_xid_that_asks_for_a_reset(code: int) -> None:
    assert severity_of(code, RecoveryAction.NONE) is Severity.DEGRADED
    assert severity_of(code, RecoveryAction.UNKNOWN) is Severity.REBOOT


@pytest.mark.parametrize("code", sorted(BY_SEVERITY[Severity.FATAL]))
def test_a_broken_part_stays_broken_whatever_the_driver_asks_for(code: int) -> None:
    assert severity_of(code, RecoveryAction.NONE) is Severity.FATAL


def test_a_context_switch_time_out_follows_the_recovery_action() -> None:
    seen = proof(a10g(recovery_action=RecoveryAction.RESET), xids=(Xid(code=109),))
    codes = {(code, severity) for code, severity, _ in found(seen, ONE)}
    assert codes == {("recovery_action", Severity.REBOOT), ("xid_109", Severity.SHOWN)}


def test_an_xid_of_a_gpu_that_is_gone_is_not_put_on_the_one_that_is_left() -> None:
    (finding,) = judge_xids([Xid(code=79, gpu="0000:00:1E.0")], [gpu()], EIGHT)
    assert finding.gpu is None
    assert finding.message == "Xid 79 at 0000:00:1e.0: the GPU has fallen off the bus"


def test_the_text_of_an_address_that_is_none_is_not_repeated() -> None:
    (finding,) = judge_xids([Xid(code=79, gpu="<script>")], [gpu()], EIGHT)
    assert finding.message == "Xid 79: the GPU has fallen off the bus"


# --- what follows -----------------------------------------------------------------------------------------------


def test_the_worst_finding_comes_first_and_there_are_never_many() -> None:
    xids = tuple(Xid(code=code) for code in (13, 63, 48, 79, *range(500, 560)))
    findings = judge(proof(a10g(recovery_action=None), xids=xids), ONE)
    assert len(findings) == MOST_FINDINGS
    assert [one.code for one in findings[:3]] == ["xid_79", "xid_48", "xid_63"]


@pytest.mark.parametrize(
    ("severity", "failed", "fatal", "status"),
    [
        (Severity.FATAL, True, True, HealthStatus.FAILING),
        (Severity.REBOOT, True, False, HealthStatus.FAILING),
        (Severity.DEGRADED, False, False, HealthStatus.DEGRADED),
        (Severity.SHOWN, False, False, HealthStatus.HEALTHY),
    ],
)
def test_what_follows_from_a_severity(severity: Severity, failed: bool, fatal: bool, status: HealthStatus) -> None:
    findings = [Finding("x", severity, None, "x")]
    assert (has_failed(findings), is_fatal(findings), health_status(findings)) == (failed, fatal, status)


def test_only_broken_gpus_are_remembered() -> None:
    seen = proof(*eight(remap_failed=True), xids=(Xid(code=63),))
    assert bad_uuids(judge(seen, EIGHT), [f"GPU-{n}" for n in range(8)], 8) == {"GPU-7": "remap_failed"}


def test_a_whole_host_is_remembered_by_the_gpus_that_are_left() -> None:
    left = [f"GPU-{n}" for n in range(7)]
    assert bad_uuids(judge(proof(*eight()[:7]), EIGHT), left, 8) == dict.fromkeys(left, "gpu_missing")


def test_a_part_of_a_host_is_not_remembered_for_a_gpu_that_is_missing() -> None:
    two = ExpectedGpus(model="A100", count=2, memory_gib=40)
    assert bad_uuids(judge(proof(gpu()), two), ["GPU-0"], 2) == {}


def test_a_gpu_is_not_remembered_again_for_being_remembered() -> None:
    expected = ExpectedGpus(model="A10G", count=1, memory_gib=24, known_bad=frozenset({"GPU-0"}))
    assert bad_uuids(judge(proof(a10g()), expected), ["GPU-0"], 1) == {}


LOST = AgentError("nvml", "GPU 7: the GPU is lost (15)", gpu=7, code=15)
FAILURES: dict[str, dict[str, Any]] = {
    "gpu_lost": {"errors": (LOST,), "driver_gpus": 8},
    "gpu_unreadable": {"errors": (AgentError("nvml", "GPU 7: NVML error (999)", gpu=7, code=999),), "driver_gpus": 8},
    "gpu_missing": {"driver_gpus": 7},
    "xid_79": {"xids": (Xid(code=79, gpu="0000:00:1e.0"),)},
    "xid_140": {"xids": (Xid(code=140),), "driver_gpus": 8},
}
"""By the code of its finding: how an agent reports each kind of failure, besides the list of GPUs."""


@pytest.mark.parametrize("listed", [8, 7, 0])
@pytest.mark.parametrize("code", FAILURES)
def test_a_failure_is_seen_with_all_gpus_with_the_others_and_with_none(code: str, listed: int) -> None:
    status, findings = judge_health(GpuReport(gpus=eight()[:listed], **FAILURES[code]), EIGHT)
    assert status is HealthStatus.FAILING
    assert code in {one.code for one in findings}
    assert code in {
        one.code for one in judge(Proof(agent="1.0", at=NOW, gpus=eight()[:listed], **FAILURES[code]), EIGHT)
    }


@pytest.mark.parametrize("listed", [1, 0])
@pytest.mark.parametrize(
    "evidence",
    [
        {"errors": (AgentError("nvml", "GPU 0: the GPU is lost (15)", gpu=0, code=15),), "driver_gpus": 1},
        {"errors": (AgentError("nvidia-smi", "nvidia-smi: exit status 15", code=15),)},
        {"xids": (Xid(code=79, gpu="0000:00:1e.0"),)},
        {"driver_gpus": 0},
    ],
    ids=["handle", "program", "xid", "count"],
)
def test_the_only_gpu_of_a_lease_is_missed(evidence: dict[str, Any], listed: int) -> None:
    own = ExpectedGpus(model="A10G", count=1, memory_gib=24, own_image=True)
    for expected in (ONE, own):
        status, findings = judge_health(GpuReport(gpus=(a10g(),) * listed, **evidence), expected)
        assert (status, is_fatal(findings)) == (HealthStatus.FAILING, True)
    if not listed:
        seen = judge(Proof(agent="1.0", at=NOW, gpus=(), **evidence), own)
        assert is_fatal(seen), "nor does a tenant's image pass"
        assert "no_driver" not in {one.code for one in seen}


@pytest.mark.parametrize(
    "errors",
    [
        (),
        (AgentError("nvml", "NVML: the driver is not loaded (9)", code=9),),
        (AgentError("nvml", "NVML: the library and the kernel module have different versions (18)", code=18),),
        (AgentError("nvidia-smi", "nvidia-smi: no answer within 15 s"),),
        (AgentError("amd-smi", "amd-smi: exit status 15", code=15),),
        (AgentError("multiplication", "GPU 0: cuMemAlloc_v2 returned 2", gpu=0, code=2),),
    ],
)
def test_a_driver_that_a_tenant_unloaded_is_no_failure(errors: tuple[AgentError, ...]) -> None:
    status, findings = judge_health(GpuReport(gpus=(), errors=errors), EIGHT)
    assert status is HealthStatus.UNKNOWN
    assert [(one.code, one.severity) for one in findings] == [("driver_error", Severity.SHOWN)] * len(errors)


def test_an_xid_that_the_driver_called_settled_stays_so_while_the_driver_is_unloaded() -> None:
    xids = (Xid(code=48, gpu="0000:00:1e.0"),)
    status, before = judge_health(GpuReport(gpus=(a10g(),), xids=xids), ONE)
    assert status is HealthStatus.DEGRADED
    unloaded = GpuReport(gpus=(), xids=xids)
    assert judge_health(unloaded, ONE, before)[0] is HealthStatus.DEGRADED
    assert judge_health(unloaded, ONE)[0] is HealthStatus.FAILING
    more = GpuReport(gpus=(), xids=(*xids, Xid(code=119)))
    assert judge_health(more, ONE, before)[0] is HealthStatus.FAILING, "a new one counts"


def test_a_reading_that_was_cut_off_is_unknown_not_healthy_and_not_a_loss() -> None:
    error = AgentError("nvml", "nvml: no answer within 15 s")
    cut = GpuReport(gpus=eight()[:3], driver_gpus=8, errors=(error,))
    assert judge_health(cut, EIGHT)[0] is HealthStatus.UNKNOWN


def test_a_gpu_that_vanishes_after_active_is_a_failure() -> None:
    _, findings = judge_health(GpuReport(gpus=eight()[:7]), EIGHT)
    assert [one.code for one in findings] == ["gpu_missing"]


def test_values_that_cannot_be_true_are_shown_and_nothing_follows() -> None:
    status, (finding,) = judge_health(GpuReport(gpus=(a10g(impossible=("power_w", "throttle")),)), ONE)
    assert (status, finding.severity, finding.gpu) == (HealthStatus.HEALTHY, Severity.SHOWN, "GPU-0")
    assert finding.message == "values that cannot be true are left out: power_w, throttle"


@given(
    st.lists(st.sampled_from([gpu(1), gpu(2, remap_failed=True), gpu(3, nvlinks_up=0), GpuState()]), max_size=9),
    st.lists(st.integers(0, 200).map(lambda code: Xid(code=code)), max_size=20),
)
def test_every_report_is_judged_and_more_trouble_never_makes_it_better(gpus: list[GpuState], xids: list[Xid]) -> None:
    without = judge(proof(*gpus), EIGHT)
    with_xids = judge(proof(*gpus, xids=tuple(xids)), EIGHT)
    assert has_failed(with_xids) or not has_failed(without)
