"""Money in a storm: leases with spend caps, budgets in each scope, and whether all reports agree afterwards."""

import csv
import gzip
import random
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import psycopg

from app.local.waiting import wait_until
from tests.e2e.cloud import Json
from tests.e2e.people import Tenant

TEAMS = ("red", "blue", "green")
_CAPPED = 3
"""Every third lease has a spend cap."""
_CAP_SECONDS = (90.0, 300.0)
_USD_PER_HOUR = {"A100": 5.0, "T4": 1.2, "H100": 15.0, "g5.xlarge": 1.2, "g2-standard-4": 0.9}
"""About what a GPU of a model costs, or a type. A cap buys minutes, so that it is reached while the storm goes on."""
_OTHERS_USD_PER_HOUR = 4.5
_LATE_SECONDS = 60.0
"""A cloud that is away ends nothing. A hold ends nothing either, until the operator resumes: its time is added."""
TERM_SECONDS = 2 * 86_400
"""Longer than the run, in which nearly a day passes at once."""
_PERIODS = ("day", "month")
_ROUNDING = Decimal("0.000001")
_REPORT_SECONDS = 90.0
_CORRECTED_SECONDS = 390.0
"""A VM that ended while the day passed is charged to its closed hours, until the records are next corrected (docs/costs.md)."""
_VOLUME = "vol_"
"""Begins what reports show as the lease of a volume's cost, in closed hours alone: FOCUS and costs are compared for them."""
_NEVER = datetime.min.replace(tzinfo=UTC)


class Purse:
    """The money of one tenant. `report` has the figures; what is wrong stands in the checks."""

    def __init__(self, tenant: Tenant, seed: int, database_url: str) -> None:
        self._database_url = database_url
        self._tenant = tenant
        self._seed = seed
        self._budgets: dict[str, str] = {}
        self._since = ""

    def open(self) -> None:
        """Budgets that nothing exceeds, in each scope and of each effect."""
        key_id = self._tenant.get("/v1/me")["key_id"]
        self._since = self._tenant.get("/v1/costs", bucket="hour")["as_of"]
        scopes: tuple[tuple[dict[str, str], str, str], ...] = (
            ({"kind": "tenant"}, "lifetime", "notify"),
            ({"kind": "key", "key_id": key_id}, "lifetime", "end"),
            *(({"kind": "label", "label": f"team:{team}"}, "lifetime", "refuse") for team in TEAMS),
            *(({"kind": "tenant"}, period, "end") for period in _PERIODS),
            *(({"kind": "label", "label": f"team:{team}"}, period, "end") for team in TEAMS for period in _PERIODS),
        )
        for scope, period, effect in scopes:
            body = {"scope": scope, "period": period, "amount": "1000000", "when_exceeded": effect}
            answer = self._tenant.http.post("/v1/budgets", json=body)
            answer.raise_for_status()
            name = scope.get("label", scope["kind"])
            self._budgets[answer.json()["id"]] = name if period == "lifetime" else f"{name} of a {period}"

    def wish(self, number: int, wish: Json, *, capped: bool) -> Json:
        """The wish with a team and a term of days, and where `capped` every third with a spend cap of a few minutes."""
        chance = random.Random(self._seed * 1_000_003 + number)
        labelled = {**wish, "labels": {"team": chance.choice(TEAMS)}, "ttl_seconds": TERM_SECONDS}
        if number % _CAPPED or not capped:
            return labelled
        cost = _rate(wish) * chance.uniform(*_CAP_SECONDS) / 3600
        return {**labelled, "max_cost": f"{cost:.4f}"}

    def checks(self, leases: Sequence[Json], *, longest_hold: float) -> dict[str, list[str]]:
        """After all leases have ended. `leases`: as the API shows them. `longest_hold`: in seconds."""
        return {
            "caps exceeded": self._exceeded(leases, _LATE_SECONDS + longest_hold),
            "ended without a cause": _ended_early(leases),
            "commitments left": [f"{name}: {held}" for name, held in self._left().items()],
            "spent of budgets differs from the leases": self._misspent(leases),
            "usage differs from leases": self._differing(leases),
        }

    def figures(self, leases: Sequence[Json]) -> dict[str, Any]:
        """How many caps ended leases, and the longest time that one ran beyond its cap."""
        ended = [lease for lease in leases if (lease["reason"] or {}).get("code") == "spend_cap"]
        return {"ended_by_cap": len(ended), "longest_beyond_cap_seconds": max(map(self._late, leases), default=0.0)}

    def _exceeded(self, leases: Sequence[Json], most_seconds: float) -> list[str]:
        return [
            f"{lease['id']} cost {lease['cost']['accrued']} of {lease['max_cost']}, {late:.1f} s too long"
            for lease in leases
            if (late := self._late(lease)) > most_seconds
        ]

    def _late(self, lease: Json) -> float:
        """Seconds for which a lease cost more than its cap, at the highest rate of its attempts."""
        if lease["max_cost"] is None:
            return 0.0
        over = Decimal(lease["cost"]["accrued"]) - Decimal(lease["max_cost"])
        if over <= 0:
            return 0.0
        changes = self._tenant.items(f"/v1/leases/{lease['id']}/events", type="lease.price_changed")
        prices = [one["offering"]["price_per_hour"] for one in self._tenant.attempts(lease["id"])]
        rate = max(map(Decimal, [*prices, *(one["data"]["price_per_hour"] for one in changes)]))
        return round(float(over / rate) * 3600, 1)

    def _left(self) -> dict[str, str]:
        """What budgets still hold; the job that repairs them may need a moment."""
        left: dict[str, str] = {}

        def empty() -> bool:
            left.clear()
            for budget in self._tenant.items("/v1/budgets"):
                if Decimal(budget["committed"]):
                    name = self._budgets.get(str(budget["id"]), "another budget")
                    left[name] = str(budget["committed"])
            return not left

        wait_until(empty, timeout=_REPORT_SECONDS, poll=1.0)
        return dict(left)

    def _misspent(self, leases: Sequence[Json]) -> list[str]:
        """A lifetime budget that was there from the start has spent what its leases and volumes cost. A job charges volumes."""
        wrong: list[str] = []

        def agree() -> bool:
            wrong[:] = self._spent_otherwise(leases)
            return not wrong

        wait_until(agree, timeout=_REPORT_SECONDS, poll=1.0)
        return list(wrong)

    def _spent_otherwise(self, leases: Sequence[Json]) -> list[str]:
        cost: dict[str, Decimal] = defaultdict(Decimal)
        for lease in leases:
            accrued = Decimal(lease["cost"]["accrued"])
            cost["tenant"] += accrued
            cost[f"team:{lease['labels'].get('team')}"] += accrued
        volumes = self._tenant.volumes()
        cost["tenant"] += sum((Decimal(volume["cost"] or 0) for volume in volumes), Decimal(0))
        spent = {self._budgets.get(one["id"]): Decimal(one["spent"]) for one in self._tenant.items("/v1/budgets")}
        rounding = _ROUNDING * 2 * max(len(leases) + len(volumes), 1)
        return [
            f"{name}: spent {spent.get(name)}, leases and volumes cost {cost[name]}"
            for name in ("tenant", *(f"team:{team}" for team in TEAMS))
            if abs(spent.get(name, Decimal(0)) - cost[name]) > rounding
        ]

    def _differing(self, leases: Sequence[Json]) -> list[str]:
        """Costs by lease, and the FOCUS export, against what each lease cost."""
        wanted = {lease["id"]: lease for lease in leases if Decimal(lease["cost"]["accrued"])}
        found: list[str] = []

        def agree() -> bool:
            found.clear()
            amounts, closed = self._costs()
            of_leases = {lease_id for lease_id in amounts if not lease_id.startswith(_VOLUME)}
            for lease_id in wanted.keys() | of_leases:
                lease = wanted.get(lease_id)
                accrued = Decimal(lease["cost"]["accrued"]) if lease else Decimal(0)
                rounding = _ROUNDING * (1 + 2 * (lease or {}).get("attempts_count", 0))
                if abs(amounts[lease_id] - accrued) > rounding:
                    found.append(f"costs: {lease_id} {amounts[lease_id]}, the lease {accrued}")
            exported = self._focus()
            found.extend(
                f"FOCUS: {lease_id} {exported[lease_id]}, the costs {closed[lease_id]}"
                for lease_id in closed.keys() | exported.keys()
                if abs(exported[lease_id] - closed[lease_id]) > _ROUNDING * 10
            )
            return not found

        wait_until(agree, timeout=_CORRECTED_SECONDS, poll=5.0)
        return list(found)

    def _recorded_until(self) -> datetime:
        """The end of the last hour with usage records: a job closes hours some minutes after their end."""
        with psycopg.connect(self._database_url) as connection:
            connection.execute("SET ROLE gpulease_worker")
            row = connection.execute(
                "SELECT recorded_until FROM usage_progress WHERE recorded_until IS NOT NULL"
            ).fetchone()
        return _NEVER if row is None else row[0]

    def _costs(self) -> tuple[dict[str, Decimal], dict[str, Decimal]]:
        """Of each lease: in all hours, and in those with usage records."""
        sums: dict[str, Decimal] = defaultdict(Decimal)
        closed: dict[str, Decimal] = defaultdict(Decimal)
        recorded_until = self._recorded_until()
        for item in self._tenant.items("/v1/costs", bucket="hour", group_by="lease", **{"from": self._since}):
            sums[item["group"]["lease"]] += Decimal(item["cost"])
            if datetime.fromisoformat(item["start"]) < recorded_until:
                closed[item["group"]["lease"]] += Decimal(item["cost"])
        return sums, closed

    def _focus(self) -> dict[str, Decimal]:
        """Closed hours of each month of the run."""
        sums: dict[str, Decimal] = defaultdict(Decimal)
        for month in self._months():
            answer = self._tenant.http.get("/v1/costs/focus", params={"month": month})
            answer.raise_for_status()
            content = answer.content
            text = (gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content).decode()
            for row in csv.DictReader(text.splitlines()):
                sums[row["x_LeaseId"]] += Decimal(row["BilledCost"])
        return sums

    def _months(self) -> list[str]:
        report = self._tenant.get("/v1/costs", bucket="hour", **{"from": self._since})
        return sorted({report["starts_at"][:7], report["as_of"][:7]})


def _ended_early(leases: Sequence[Json]) -> list[str]:
    """Nothing exceeds the budgets, no lease has a rule for idleness, and a term ends at its time alone."""
    return [
        f"{lease['id']}: {lease['reason']['code']} before {lease['expires_at']}"
        for lease in leases
        if (lease["reason"] or {}).get("code") in {"budget_exceeded", "idle"}
        or ((lease["reason"] or {}).get("code") == "expired" and lease["ended_at"] < lease["expires_at"])
    ]


def _rate(wish: Json) -> float:
    """About the USD an hour of what a wish asks for."""
    gpu = wish.get("gpu")
    if gpu is not None:
        return _USD_PER_HOUR[gpu["model"]] * float(gpu["count"])
    return _USD_PER_HOUR.get(wish["instance_types"][0], _OTHERS_USD_PER_HOUR)
