"""The common time of a run of chaos."""

import threading

import pytest

from tests.chaos import timeline
from tests.chaos.timeline import Line, Timeline


def test_what_follows_a_hold_up_keeps_its_distances(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "_AHEAD_SECONDS", 0.01)
    line = Timeline()
    threading.Timer(0.3, line.reached, (Line.ASKING, 10.0)).start()
    times = []
    for at in (0.1, 0.2, 0.4):
        line.wait_for(Line.HAPPENING, at)
        times.append(line.seconds)
        line.reached(Line.HAPPENING, at)
    first, second, third = times
    assert first >= 0.3
    assert second - first >= 0.099
    assert third - second >= 0.199


def test_nobody_comes_early() -> None:
    line = Timeline()
    line.wait_for(Line.ASKING, 0.2)
    assert line.seconds >= 0.2
