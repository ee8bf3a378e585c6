"""The Grafana board in docs: what Grafana needs to import it, and metrics that the API returns."""

import json
import re
from itertools import combinations
from typing import Any

import pytest

from app.observability.gpu_exposition import METRIC_NAMES
from tests.harness.databases import ROOT

BOARD: dict[str, Any] = json.loads((ROOT / "docs/grafana/gpulease-leases.json").read_text(encoding="utf-8"))
PANELS: list[dict[str, Any]] = BOARD["panels"]
GRID_WIDTH = 24
METRIC = re.compile(r"\b(DCGM_FI_\w+|gpulease_\w+)\b")


def test_the_board_has_what_an_import_needs() -> None:
    assert isinstance(BOARD["schemaVersion"], int)
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,40}", BOARD["uid"])
    assert BOARD["title"]
    assert "id" not in BOARD, "Grafana gives a board its number"
    assert set(BOARD["time"]) == {"from", "to"}
    ids = [panel["id"] for panel in PANELS]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_each_panel_can_be_drawn(panel: dict[str, Any]) -> None:
    assert panel["type"] in {"timeseries", "stat"}
    place = panel["gridPos"]
    assert place["x"] >= 0
    assert place["x"] + place["w"] <= GRID_WIDTH
    assert place["h"] > 0
    assert set(panel["fieldConfig"]) == {"defaults", "overrides"}
    refs = [target["refId"] for target in panel["targets"]]
    assert refs
    assert len(refs) == len(set(refs))
    for source in (panel["datasource"], *(target["datasource"] for target in panel["targets"])):
        assert source == {"type": "prometheus", "uid": "${datasource}"}


def test_panels_do_not_overlap() -> None:
    for one, other in combinations([panel["gridPos"] for panel in PANELS], 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        apart = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or apart


def test_every_metric_is_one_that_the_api_returns() -> None:
    expressions = [target["expr"] for panel in PANELS for target in panel["targets"]]
    used = {name for text in expressions for name in METRIC.findall(text)}
    assert used
    assert used <= METRIC_NAMES
    assert all(text.count("{") == text.count("}") and text.count("(") == text.count(")") for text in expressions)


def test_every_variable_that_is_used_is_defined() -> None:
    text = json.dumps(PANELS)
    used = set(re.findall(r"\$\{?(\w+)", text))
    assert used == {variable["name"] for variable in BOARD["templating"]["list"]}
