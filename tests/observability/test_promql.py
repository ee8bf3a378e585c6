"""The evaluator means what Prometheus means, on examples from its documentation, and refuses what it does not know."""

import math

import pytest

from tests.observability.promql import Scrape, UnknownForm, evaluate, names, scrape

BEFORE = """
# TYPE up gauge
up{job="a",zone="x"} 1
up{job="b",zone="x"} 0
# TYPE calls_total counter
calls_total{job="a"} 10
calls_total{job="b"} 100
# TYPE wait histogram
wait_bucket{le="1"} 0
wait_bucket{le="2"} 0
wait_bucket{le="+Inf"} 0
"""
AFTER = """
# TYPE up gauge
up{job="a",zone="x"} 3
up{job="b",zone="x"} 4
# TYPE calls_total counter
calls_total{job="a"} 40
calls_total{job="b"} 30
calls_total{job="new"} 5
# TYPE wait histogram
wait_bucket{le="1"} 10
wait_bucket{le="2"} 20
wait_bucket{le="+Inf"} 20
"""
SCRAPES = (scrape(0, BEFORE), scrape(60, AFTER))


def values(expression: str, *scrapes: Scrape) -> dict[str, float]:
    found = evaluate(expression, *(scrapes or SCRAPES))
    return {
        ",".join(value for name, value in sorted(labels) if name != "instance"): one for labels, one in found.items()
    }


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('up{job="a"}', {"a,x": 3.0}),
        ('up{job!="a"}', {"b,x": 4.0}),
        ('up{job=~"a|c",zone="x"}', {"a,x": 3.0}),
        ('up{job!~"a.*"}', {"b,x": 4.0}),
        ('up{nothing=""} > 3', {"b,x": 4.0}),
        ("max by (zone) (up)", {"x": 4.0}),
        ("min(up)", {"": 3.0}),
        ("sum(up) == 7", {"": 7.0}),
        ("sum(up) < 7", {}),
        ("max(missing) > 0", {}),
        ("absent(missing)", {"": 1.0}),
        ("absent(up)", {}),
        ("increase(calls_total[5m])", {"a": 30.0, "b": 30.0}),
        ("rate(calls_total[5m]) > 0.4", {"a": 0.5, "b": 0.5}),
        ("rate(calls_total[30s])", {}),
        ("sum by (job) (up) / sum by (job) (increase(calls_total[2m])) >= 0.1", {"a": 0.1, "b": 4 / 30}),
        ("histogram_quantile(0.75, sum by (le) (rate(wait_bucket[5m])))", {"": 1.5}),
    ],
)
def test_each_form_means_what_prometheus_means(expression: str, expected: dict[str, float]) -> None:
    assert values(expression) == pytest.approx(expected)


def test_a_quantile_of_nothing_compares_with_nothing() -> None:
    quantile = "histogram_quantile(0.9, sum by (le) (rate(wait_bucket[5m])))"
    [nothing] = values(quantile, SCRAPES[0], scrape(60, BEFORE)).values()
    assert math.isnan(nothing)
    assert not values(f"{quantile} > 0", SCRAPES[0], scrape(60, BEFORE))


@pytest.mark.parametrize(
    "expression",
    ["up unless up", "up > up", "avg_over_time(up[5m])", "up{job<1}", "up offset 5m", "up + 1", "max(up", "up $"],
)
def test_what_is_not_known_is_refused(expression: str) -> None:
    with pytest.raises(UnknownForm):
        evaluate(expression, *SCRAPES)


def test_an_expression_names_its_metrics() -> None:
    assert names('sum by (a) (rate(b_total{c=~"d"}[5m])) / max(e) > 1') == {"b_total", "e"}
