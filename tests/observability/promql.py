"""A tiny evaluator of the PromQL forms that docs/alerts uses, with Prometheus' own meaning; anything else is refused.

Only that Prometheus extrapolates `rate` and `increase` to the ends of their range is left out.
Selectors with all four matchers, `rate` and `increase` over two scrapes, max, min and sum with or without `by`, `absent`,
`histogram_quantile`, one-to-one division, a comparison with a number, and `and`.
"""

import math
import operator
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]

_TOKEN = re.compile(r'\s*(?:(\d+(?:\.\d+)?[smhd]?|[A-Za-z_]\w*|"[^"]*")|(=~|!~|!=|==|>=|<=|[(){}\[\],=<>/*+-]))')
_NAME = re.compile(r"[{\s]")
"""What ends the name of a metric."""
_AGGREGATES: Mapping[str, Callable[[Sequence[float]], float]] = {"max": max, "min": min, "sum": sum}
_COMPARISONS = {
    "==": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
    "!=": operator.ne,
}
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class UnknownForm(Exception):
    """PromQL may know it; this evaluator does not."""


@dataclass(frozen=True)
class Scrape:
    """All samples of one moment by metric name. `at` in seconds."""

    at: float
    samples: Mapping[str, Vector]


class _Pages(Mapping[str, Vector]):
    """The samples of each metric. Only those of metrics that somebody asks for are read."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._lines: dict[str, list[list[str]]] = {}
        self._read: dict[str, Vector] = {}
        for number, text in enumerate(texts):
            for line in text.splitlines():
                if line and not line.startswith("#"):
                    pages = self._lines.setdefault(_NAME.split(line, 1)[0], [[] for _ in texts])
                    pages[number].append(line)

    def __getitem__(self, name: str) -> Vector:
        if name not in self._read:
            self._read[name] = self._vector(name)
        return self._read[name]

    def _vector(self, name: str) -> Vector:
        vector: Vector = {}
        for number, lines in enumerate(self._lines[name]):
            for family in text_string_to_metric_families("\n".join(lines)):
                for sample in family.samples:
                    labels = frozenset({**sample.labels, "instance": str(number)}.items())
                    assert labels not in vector, f"{name} is told twice"
                    vector[labels] = sample.value
        return vector

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)


def scrape(at: float, *texts: str) -> Scrape:
    """What Prometheus would keep of these pages, each of a target of its own."""
    return Scrape(at, _Pages(texts))


def evaluate(expression: str, *scrapes: Scrape) -> Vector:
    """The samples of an expression at the last scrape; an alert fires for each. Raises UnknownForm."""
    parser = _Parser(expression, scrapes)
    found = parser.conjunction()
    parser.expect("")
    assert isinstance(found, dict), "an alert's expression is a vector"
    return found


def names(expression: str) -> set[str]:
    """The metrics that an expression asks for."""
    asked = _Asked()
    parser = _Parser(expression, [Scrape(0, asked), Scrape(1, asked)])
    parser.conjunction()
    parser.expect("")
    return asked.names


class _Asked(dict[str, Vector]):
    """No sample of any metric, and which of them were asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        self.names.add(name)
        return default


class _Parser:
    def __init__(self, expression: str, scrapes: Sequence[Scrape]) -> None:
        self._tokens = list(_tokens(expression))
        self._scrapes = scrapes

    def expect(self, token: str) -> None:
        found = self._next()
        if found != token:
            raise UnknownForm(f"{token or 'the end'} expected, not {found}")

    def conjunction(self) -> Vector | float:
        """Of the left vector the samples whose labels the right one has too."""
        left = self.comparison()
        while self._peek() == "and":
            self._next()
            right = self.comparison()
            if not isinstance(left, dict) or not isinstance(right, dict):
                raise UnknownForm("only vectors are joined with `and`")
            left = {labels: value for labels, value in left.items() if labels in right}
        return left

    def comparison(self) -> Vector | float:
        left = self._quotient()
        if self._peek() not in _COMPARISONS:
            return left
        compare, right = _COMPARISONS[self._next()], self._quotient()
        if not isinstance(left, dict) or not isinstance(right, float):
            raise UnknownForm("only a vector is compared, with a number")
        return {labels: value for labels, value in left.items() if compare(value, right)}

    def _quotient(self) -> Vector | float:
        left = self._operand()
        while self._peek() == "/":
            self._next()
            right = self._operand()
            if not isinstance(left, dict) or not isinstance(right, dict):
                raise UnknownForm("only vectors are divided")
            left = {labels: _divided(value, right[labels]) for labels, value in left.items() if labels in right}
        return left

    def _operand(self) -> Vector | float:
        token = self._next()
        if token[:1].isdigit():
            return float(token)
        if token == "(":
            found = self.comparison()
            self.expect(")")
            return found
        if token in _AGGREGATES:
            return self._aggregate(_AGGREGATES[token])
        if self._peek() == "(":
            return self._function(token)
        return self._select(token, self._scrapes[-1], self._matchers())

    def _aggregate(self, of: Callable[[Sequence[float]], float]) -> Vector:
        by = self._by()
        groups: dict[Labels, list[float]] = defaultdict(list)
        for labels, value in self._vector_in_brackets().items():
            groups[frozenset((name, told) for name, told in labels if name in by)].append(value)
        return {labels: of(values) for labels, values in groups.items()}

    def _by(self) -> set[str]:
        if self._peek() != "by":
            return set()
        self._next()
        self.expect("(")
        found = set()
        while (token := self._next()) != ")":
            found |= {token} - {","}
        return found

    def _vector_in_brackets(self) -> Vector:
        self.expect("(")
        found = self.comparison()
        self.expect(")")
        if not isinstance(found, dict):
            raise UnknownForm("a vector expected")
        return found

    def _function(self, name: str) -> Vector:
        if name == "absent":
            return {} if self._vector_in_brackets() else {frozenset(): 1.0}
        if name in ("rate", "increase"):
            return self._change(per_second=name == "rate")
        if name == "histogram_quantile":
            self.expect("(")
            quantile = float(self._next())
            self.expect(",")
            buckets = self._operand()
            self.expect(")")
            if isinstance(buckets, dict):
                return _quantiles(quantile, buckets)
        raise UnknownForm(f"{name} is not known here")

    def _change(self, *, per_second: bool) -> Vector:
        """Between the first and the last sample of a series in the range; it needs two."""
        self.expect("(")
        name = self._next()
        matchers = self._matchers()
        self.expect("[")
        token = self._next()
        window = float(token[:-1]) * _UNITS[token[-1]]
        self.expect("]")
        self.expect(")")
        last = self._scrapes[-1]
        inside = [one for one in self._scrapes if one.at > last.at - window]
        if len(inside) < 2:
            return {}
        series: dict[Labels, list[tuple[float, float]]] = defaultdict(list)
        for one in inside:
            for labels, value in self._select(name, one, matchers).items():
                series[labels].append((one.at, value))
        return {
            labels: sum(_grown(a, b) for (_, a), (_, b) in pairwise(samples))
            / (samples[-1][0] - samples[0][0] if per_second else 1.0)
            for labels, samples in series.items()
            if len(samples) > 1
        }

    def _matchers(self) -> list[tuple[str, str, str]]:
        if self._peek() != "{":
            return []
        self._next()
        found = []
        while True:
            found.append((self._next(), self._next(), self._next().strip('"')))
            token = self._next()
            if token == "}":
                return found
            if token != ",":
                raise UnknownForm(f"a matcher ends with {token}")

    @staticmethod
    def _select(name: str, scraped: Scrape, matchers: Sequence[tuple[str, str, str]]) -> Vector:
        return {
            labels: value
            for labels, value in (scraped.samples.get(name) or {}).items()
            if all(_matches(dict(labels).get(label, ""), how, wanted) for label, how, wanted in matchers)
        }

    def _peek(self) -> str:
        return self._tokens[0] if self._tokens else ""

    def _next(self) -> str:
        return self._tokens.pop(0) if self._tokens else ""


def _tokens(expression: str) -> Iterator[str]:
    at, expression = 0, expression.rstrip()
    while at < len(expression):
        match = _TOKEN.match(expression, at)
        if match is None:
            raise UnknownForm(f"not understood: {expression[at:]}")
        yield match[1] or match[2]
        at = match.end()


def _matches(value: str, how: str, wanted: str) -> bool:
    if how in ("=", "!="):
        return (value == wanted) == (how == "=")
    if how in ("=~", "!~"):
        return bool(re.fullmatch(wanted, value)) == (how == "=~")
    raise UnknownForm(f"{how} is no matcher")


def _divided(one: float, by: float) -> float:
    return one / by if by else math.nan if one == 0 else math.copysign(math.inf, one)


def _grown(before: float, after: float) -> float:
    """A counter that fell began anew."""
    return after - before if after >= before else after


def _quantiles(quantile: float, buckets: Vector) -> Vector:
    groups: dict[Labels, list[tuple[float, float]]] = defaultdict(list)
    for labels, count in buckets.items():
        bound = float(dict(labels)["le"])
        groups[frozenset(one for one in labels if one[0] != "le")].append((bound, count))
    return {labels: _quantile(quantile, sorted(group)) for labels, group in groups.items()}


def _quantile(quantile: float, buckets: Sequence[tuple[float, float]]) -> float:
    """Linear within the bucket; the last finite bound when it lies beyond; NaN of nothing."""
    total = buckets[-1][1]
    if total == 0 or len(buckets) < 2:
        return math.nan
    rank, below, lower = quantile * total, 0.0, 0.0
    for bound, count in buckets:
        if count >= rank:
            if math.isinf(bound):
                return buckets[-2][0]
            return lower + (bound - lower) * (rank - below) / (count - below)
        below, lower = count, bound
    return math.nan
