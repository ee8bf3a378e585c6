"""The simulation finds bugs: each of these protocols with a part broken must turn some seed red."""

import pytest

from tests.simulation.broken import BROKEN, Break
from tests.simulation.database import Clocked
from tests.simulation.world import simulate

_MOST = 40


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("broken", "first", "weather"), BROKEN, ids=[broken.__name__ for broken, *_ in BROKEN])
def test_a_broken_protocol_is_found(
    clocked: Clocked, monkeypatch: pytest.MonkeyPatch, broken: Break, first: int, weather: dict[str, float]
) -> None:
    broken(monkeypatch)
    given = {"groups": 0.0, "budgets": 0.0, "suspended": 0.0, "hostile": 0.0, **weather}
    assert any(simulate(clocked, seed, **given).violation for seed in range(first, first + _MOST))
