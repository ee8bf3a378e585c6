from datetime import UTC, datetime, timedelta

import pytest

from app.cli.render import times

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90m", 5400),
        ("4h", 14400),
        ("1h30m", 5400),
        ("2d", 172800),
        ("45s", 45),
        ("4H", 14400),
        ("0", 0),
    ],
)
def test_durations_are_read_as_people_write_them(text: str, seconds: int) -> None:
    assert times.parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "4 hours", "-1", "1.5h", "4h!", "30m1h", "٣"])
def test_what_is_no_duration_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match="use 45s, 90m, 4h"):
        times.parse_duration(text)


def test_a_bare_number_is_refused_with_the_units_it_may_mean() -> None:
    with pytest.raises(ValueError, match=r"'90' has no unit: 90s, 90m or 90h\?"):
        times.parse_duration("90")


@pytest.mark.parametrize("seconds", [0, 45, 5400, 7200])
def test_an_exact_duration_is_read_back(seconds: int) -> None:
    assert times.parse_duration(times.exact(seconds)) == seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (12.9, "12 s"),
        (250, "4 min 10 s"),
        (3600, "1 h"),
        (14280, "3 h 58 min"),
        (187200, "2 d 4 h"),
        (-5, "0 s"),
    ],
)
def test_durations_show_their_two_largest_units(seconds: float, text: str) -> None:
    assert times.duration(seconds) == text


def test_times_read_relative_to_now() -> None:
    assert times.relative(NOON + timedelta(hours=3, minutes=58), NOON) == "in 3 h 58 min"
    assert times.relative(NOON - timedelta(minutes=5), NOON) == "5 min ago"
    assert times.relative(NOON, NOON) == "now"


def test_api_times_are_read_and_written() -> None:
    assert times.parse_time("2026-06-01T12:00:00Z") == NOON
    assert times.rfc3339(NOON) == "2026-06-01T12:00:00Z"
    assert times.parse_time(None) is None
    assert times.parse_time("soon") is None
