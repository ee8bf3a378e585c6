"""docs/observability.md names every metric with its kind, its labels and its meaning, and no other."""

import re

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.metrics import MetricWrapperBase

from app.observability.installation_metrics import DATABASE_UP, FAMILIES
from app.observability.metrics import ApiMetrics
from tests.house.sources import ROOT
from workers.runtime.metrics import WorkerMetrics

PAGE = (ROOT / "docs" / "observability.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `gpulease_.*\|$", re.MULTILINE)


def row(name: str, kind: str | None, labels: tuple[str, ...], meaning: str) -> str:
    return f"| `{name}` | {kind} | {', '.join(labels) or '–'} | {meaning} |"


def counted(registry: CollectorRegistry) -> list[str]:
    return [
        row(one._name + ("_total" if isinstance(one, Counter) else ""), one._type, one._labelnames, one._documentation)
        for one in registry._collector_to_names
        if isinstance(one, MetricWrapperBase)
    ]


def rows() -> list[str]:
    told = [row(one.name, "gauge", one.labels, one.meaning) for one in (DATABASE_UP, *FAMILIES)]
    return [*told, *counted(ApiMetrics().registry), *counted(WorkerMetrics().registry)]


def test_the_page_has_a_row_for_each_metric_as_the_code_tells_it() -> None:
    assert ROW.findall(PAGE) == rows()
