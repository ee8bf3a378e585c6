"""Which GPUs and which name the series of a VM have: what root and tenants choose stays limited in number over time."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.domain.metric_labels import CHANGES_AFTER, MetricLabels, VmReport

NOW = datetime(2026, 11, 28, 23, 59, tzinfo=UTC)
LATER, SOON = NOW + CHANGES_AFTER, NOW + timedelta(minutes=1)


def report(*uuids: str, **changes: Any) -> VmReport:
    facts: dict[str, Any] = {"boot_id": "boot-1", "name": "train", "count": 2, "now": NOW}
    return VmReport(uuids=uuids, **{**facts, **changes})


FIRST = MetricLabels.first(report("a", "b"))


def test_an_attempt_has_no_more_gpus_than_its_offering() -> None:
    assert MetricLabels.first(report("a", "b", "c")).uuids == ("a", "b")


def test_the_gpus_of_the_proof_come_before_those_of_samples() -> None:
    assert MetricLabels.first(report("x", "b", proven=["a", "b"], proven_at=NOW)).uuids == ("a", "b")
    assert MetricLabels.first(report("b", "x", proven=["a"], proven_at=NOW)).uuids == ("a", "b")


def test_a_later_proof_begins_the_set_anew() -> None:
    proven = report("b", now=SOON, proven=["c", "b"], proven_at=SOON)
    assert FIRST.after(proven).uuids == ("c", "b")
    assert FIRST.after(replace(proven, proven_at=NOW)) == FIRST


def test_a_gpu_that_was_missing_takes_the_free_place() -> None:
    one = MetricLabels.first(report("a"))
    assert one.after(report("b", now=SOON)).uuids == ("a", "b")


def test_other_gpus_of_the_same_boot_are_unknown() -> None:
    assert FIRST.after(report("c", "d", now=LATER)) == FIRST


def test_another_boot_shows_other_gpus_once_an_hour() -> None:
    moved = report("c", "d", boot_id="boot-2", now=SOON)
    assert FIRST.after(moved).uuids == ("a", "b")
    later = FIRST.after(moved).after(replace(moved, now=LATER))
    assert (later.uuids, later.uuids_since, later.boot_id) == (("c", "d"), LATER, "boot-2")


def test_a_reboot_with_the_same_gpus_changes_none_and_uses_the_boot_up() -> None:
    rebooted = FIRST.after(report("b", boot_id="boot-2", now=LATER))
    assert (rebooted.uuids, rebooted.uuids_since) == (("a", "b"), NOW)
    assert rebooted.after(report("c", boot_id="boot-2", now=LATER)).uuids == ("a", "b")


def test_a_name_is_replaced_once_an_hour() -> None:
    assert FIRST.after(report("a", name="eval", now=SOON)).name == "train"
    renamed = FIRST.after(report("a", name="eval", now=LATER))
    assert (renamed.name, renamed.name_since) == ("eval", LATER)
    assert renamed.after(report("a", name="test", now=LATER + timedelta(minutes=59))).name == "eval"


def test_the_stored_form_is_read_back() -> None:
    assert MetricLabels.from_json(FIRST.as_json()) == FIRST


texts = st.sampled_from([f"{n}" for n in range(50)])
hostile = st.tuples(st.lists(texts, max_size=8), texts, texts, st.integers(30, 600))


@given(st.lists(hostile, min_size=1, max_size=120), st.integers(1, 4))
def test_whatever_is_reported_a_set_and_a_name_last_an_hour(reports: list[Any], count: int) -> None:
    now, labels = NOW, None
    sets: list[datetime] = []
    names: list[datetime] = []
    for uuids, boot, name, pause in reports:
        now += timedelta(seconds=pause)
        one = report(*uuids, boot_id=boot, name=name, count=count, now=now)
        before, labels = labels, MetricLabels.first(one) if labels is None else labels.after(one)
        assert len(labels.uuids) <= count
        if before is None or not set(before.uuids) <= set(labels.uuids):
            sets.append(now)
        if before is None or before.name != labels.name:
            names.append(now)
    for changes in (sets, names):
        assert all(later - earlier >= CHANGES_AFTER for earlier, later in pairwise(changes))
