"""Reports of agents: what is accepted, and what is refused with the name of its field."""

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.gpus.reports import (
    CONSOLE_MARK,
    FUTURE,
    AgentError,
    GpuState,
    Matmul,
    RecoveryAction,
    Xid,
    console_mac,
    parse_proof,
    proofs_on_console,
)
from tests.domain.samples import NOW

AT = NOW.timestamp()
TOKEN = "ab" * 32
LEAST: dict[str, Any] = {"version": 1, "agent": "1.0", "at": AT, "gpus": []}
GPU: dict[str, Any] = {
    "index": 0,
    "uuid": "GPU-5f0c",
    "model": "NVIDIA A100-SXM4-40GB",
    "memory_mib": 40960,
    "ecc_uncorrected": 0,
    "remap_failed": False,
    "remap_pending": False,
    "recovery_action": "drain_p2p",
    "nvlinks_up": 12,
    "nvlinks": 12,
    "matmul": "passed",
}


def with_gpu(**changes: Any) -> dict[str, Any]:
    return {**LEAST, "gpus": [{**GPU, **changes}]}


def test_a_whole_proof_is_read() -> None:
    xids = [{"code": 79, "gpu": "0000:00:1e.0", "at": AT}]
    value = {**with_gpu(), "boot_id": "b", "vendor": "nvidia", "source": "nvml", "xids": xids}
    value |= {"driver_gpus": 1, "errors": [{"source": "nvml", "text": "slow", "gpu": 0, "code": 10}]}
    proof = parse_proof({**value, "driver_version": "570.1", "cuda_version": "12.8"})
    assert proof.gpus == (
        GpuState(
            index=0,
            uuid="GPU-5f0c",
            model="NVIDIA A100-SXM4-40GB",
            memory_mib=40960,
            ecc_uncorrected=0,
            remap_failed=False,
            remap_pending=False,
            recovery_action=RecoveryAction.DRAIN_P2P,
            nvlinks_up=12,
            nvlinks=12,
            matmul=Matmul.PASSED,
        ),
    )
    assert proof.xids == (Xid(code=79, gpu="0000:00:1e.0", at=NOW),)
    assert (proof.boot_id, proof.driver_version, proof.driver_gpus, proof.at) == ("b", "570.1", 1, NOW)
    assert proof.errors == (AgentError("nvml", "slow", gpu=0, code=10),)


def test_everything_but_four_members_may_be_absent_or_null() -> None:
    absent = parse_proof({**LEAST, "gpus": [{}]})
    null = parse_proof({**LEAST, "gpus": [dict.fromkeys(GPU)], "xids": None, "errors": None, "vendor": None})
    assert absent == null
    assert absent.gpus == (GpuState(),)


@pytest.mark.parametrize("name", ["version", "agent", "at", "gpus"])
def test_four_members_are_required(name: str) -> None:
    with pytest.raises(ValueError, match=rf"proof\.{name} is required"):
        parse_proof({**LEAST, name: None})


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ([], "proof must be an object"),
        ({**LEAST, "version": 2}, "proof.version"),
        ({**LEAST, "at": float("nan")}, "proof.at must be finite"),
        ({**LEAST, "at": float("inf")}, "proof.at must be finite"),
        ({**LEAST, "at": -1}, "proof.at"),
        ({**LEAST, "at": 10**400}, "proof.at"),
        ({**LEAST, "at": True}, "proof.at must be a number"),
        ({**LEAST, "agent": "x" * 101}, "proof.agent"),
        ({**LEAST, "agent": "a\x00"}, "proof.agent"),
        ({**LEAST, "boot_id": "\ud800"}, "proof.boot_id"),
        ({**LEAST, "vendor": "intel"}, "proof.vendor must be one of"),
        ({**LEAST, "gpus": [{}] * 65}, "proof.gpus must have at most 64"),
        ({**LEAST, "gpus": [{}] * 10_000}, "proof.gpus must have at most 64"),
        ({**LEAST, "gpus": [3]}, "proof.gpus[0] must be an object"),
        ({**LEAST, "xids": [{"code": 1}] * 65}, "proof.xids must have at most 64"),
        ({**LEAST, "xids": [{"gpu": "x"}]}, "proof.xids[0].code is required"),
        ({**LEAST, "xids": {}}, "proof.xids must be a list"),
        ({**LEAST, "errors": [{"source": "nvml", "text": "x"}] * 9}, "proof.errors must have at most 8"),
        ({**LEAST, "errors": [{"source": "nvml", "text": "x" * 201}]}, "proof.errors[0].text"),
        ({**LEAST, "errors": [{"source": "nvml"}]}, "proof.errors[0].text is required"),
        ({**LEAST, "errors": [{"text": "x"}]}, "proof.errors[0].source is required"),
        ({**LEAST, "errors": ["x"]}, "proof.errors[0] must be an object"),
        (with_gpu(memory_mib=1.5), "proof.gpus[0].memory_mib must be a whole number"),
        (with_gpu(memory_mib=10**31), "proof.gpus[0].memory_mib"),
        (with_gpu(ecc_uncorrected="0"), "proof.gpus[0].ecc_uncorrected"),
        (with_gpu(remap_failed=1), "proof.gpus[0].remap_failed must be true or false"),
        (with_gpu(recovery_action="dance"), "proof.gpus[0].recovery_action must be one of none"),
        (with_gpu(recovery_action={}), "proof.gpus[0].recovery_action"),
        (with_gpu(matmul="perhaps"), "proof.gpus[0].matmul"),
        ({**LEAST, **{f"x{i}": 1 for i in range(17)}}, "too many unknown members"),
    ],
)
def test_a_wrong_value_is_refused_with_its_place(value: Any, field: str) -> None:
    with pytest.raises(ValueError, match=field.replace("[", r"\[")):
        parse_proof(value)


def test_a_few_members_of_a_later_agent_are_ignored() -> None:
    assert parse_proof({**LEAST, "mood": "good"}) == parse_proof(LEAST)


@pytest.mark.parametrize("ahead", [-timedelta(days=50 * 365), -timedelta(hours=1), timedelta(), timedelta(days=365)])
def test_a_proof_is_taken_whatever_the_vms_clock_says_and_no_xid_is_of_the_future(ahead: timedelta) -> None:
    value = {**with_gpu(), "xids": [{"code": 79, "at": AT - 5}, {"code": 48, "at": AT + 3600}]}
    proof = parse_proof(value, now=NOW - ahead)
    assert proof.gpus[0].uuid == "GPU-5f0c"
    assert [xid.code for xid in proof.xids] == [79, 48]
    assert all(xid.at is None or xid.at <= NOW - ahead + FUTURE for xid in proof.xids)


DRIVER_VALUES = {
    "index": 2**32, "memory_mib": 2**44, "ecc_uncorrected": 2**64, "nvlinks_up": 2**32, "nvlinks": 2**32,
}  # fmt: skip
"""By member, how many values its C type has."""


@pytest.mark.parametrize("name", DRIVER_VALUES)
def test_a_value_of_a_driver_is_read_or_left_out_alone(name: str) -> None:
    values = DRIVER_VALUES[name]
    for value in (-1, 0, 1, values // 2, values // 2 - 1, values - 2, values - 1):
        broken = {**GPU, "uuid": "GPU-broken", name: value}
        proof = parse_proof({**LEAST, "gpus": [GPU, broken], "xids": [{"code": 79}]})
        good, other = proof.gpus
        assert (good.impossible, good.ecc_uncorrected, len(proof.xids)) == ((), 0, 1)
        assert (other.uuid, other.model) == ("GPU-broken", GPU["model"])
        assert (getattr(other, name), other.impossible) in [(value, ()), (None, (name,))]
        assert other.impossible == () or value not in (0, 1), "a good value is kept"
    assert other.impossible == (name,), "the last value of the type means that nothing is known"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def problem(value: Any) -> str | None:
    """Why the value is refused. None: it is read."""
    try:
        parse_proof(value)
    except ValueError as error:
        return str(error)
    return None


@given(json_values)
def test_any_json_is_read_or_refused_with_a_reason(value: Any) -> None:
    assert problem(value) != ""


@given(st.sampled_from(sorted(GPU)), json_values)
def test_any_value_of_a_gpu_is_read_or_refused(name: str, value: Any) -> None:
    assert name in (problem(with_gpu(**{name: value})) or name)


# --- the console ------------------------------------------------------------------------------------------------


def line(proof: Any, token: str = TOKEN) -> str:
    return CONSOLE_MARK + json.dumps({"mac": console_mac(token, proof), "proof": proof})


def test_a_genuine_line_is_found_among_others() -> None:
    text = f"[   12.3] cloud-init: done\n[   13.0] agent[42]: {line(LEAST)}\r\nlogin:"
    assert proofs_on_console(text, TOKEN) == (LEAST,)


def test_several_proofs_keep_their_order() -> None:
    second = {**LEAST, "boot_id": "2"}
    assert proofs_on_console(f"{line(LEAST)}\n{line(second)}", TOKEN) == (LEAST, second)


@pytest.mark.parametrize(
    "text",
    [
        line(LEAST, token="cd" * 32),
        line(LEAST).replace('"agent": "1.0"', '"agent": "1.1"'),
        CONSOLE_MARK,
        CONSOLE_MARK + "{",
        CONSOLE_MARK + "[]",
        CONSOLE_MARK + '{"mac": 3, "proof": {}}',
        CONSOLE_MARK + '{"mac": "ü", "proof": {}}',
        CONSOLE_MARK + "[" * 4000,
        line(LEAST)[:-9],
        line({**LEAST, "errors": ["x" * 4096]}),
        "",
    ],
)
def test_any_other_line_is_skipped(text: str) -> None:
    assert proofs_on_console(text, TOKEN) == ()


def test_the_mac_is_over_the_canonical_json() -> None:
    shuffled = json.loads(json.dumps(dict(reversed(LEAST.items()))))
    assert console_mac(TOKEN, shuffled) == console_mac(TOKEN, LEAST)


@given(st.text(max_size=200))
def test_any_console_is_read(text: str) -> None:
    assert proofs_on_console(CONSOLE_MARK + text, TOKEN) == ()
