"""Times of the protocol, of calls and of jobs: one variable."""

import pytest

from app.settings import StartupError, load_settings
from app.settings.settings import Settings, describe
from app.settings.timing import TIMING, layered, parse_times, timing


def test_the_variable_sets_times_and_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TIMING, " settle_seconds = 8, claim_seconds=70,")
    settings = load_settings()
    assert (settings.settle_seconds, settings.claim_seconds) == (8, 70)
    assert settings.boot_timeout == Settings.model_fields["boot_timeout"].default


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("settle", "'settle' is not name=seconds; write for example settle_seconds=60"),
        ("settle=60", "'settle' is none of .*settle_seconds"),
        ("worker_threads=60", "'worker_threads' is none of"),
        ("settle_seconds=-1", "settle_seconds: Input should be greater than or equal to 0"),
        ("settle_seconds=soon", "settle_seconds: Input should be a valid number"),
    ],
)
def test_what_is_no_time_stops_the_process_with_its_name(
    monkeypatch: pytest.MonkeyPatch, text: str, problem: str
) -> None:
    monkeypatch.setenv(TIMING, text)
    with pytest.raises(StartupError, match=f"{TIMING}:? {problem}"):
        load_settings()


def test_a_time_has_no_variable_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPULEASE_SETTLE_SECONDS", "8")
    assert load_settings().settle_seconds == Settings.model_fields["settle_seconds"].default


def test_layers_are_merged_time_by_time() -> None:
    merged = layered({"A": "1", **timing(a=1, b=2.5)}, {"A": "2"}, timing(b=3))
    assert merged == {"A": "2", TIMING: "a=1,b=3"}
    assert layered({"A": "1"}) == {"A": "1"}
    assert parse_times(merged[TIMING]) == {"a": "1", "b": "3"}


def test_what_is_left_to_read_is_short() -> None:
    """Each variable is a question to everybody who installs gpulease."""
    assert len(describe()) < 48
