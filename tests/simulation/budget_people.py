"""Operators who set budgets, and what must hold of them: the run crosses the end of a day, of a month and of a year.

See `scheduler.EPOCH`. Budgets of a day and of a month begin anew there, in the middle of whatever happens.
"""

from collections.abc import Coroutine, Sequence
from decimal import Decimal
from random import Random
from typing import Any

from sqlalchemy import text

from app.domain.budgets import DEFAULT_THRESHOLDS, BudgetKind, Period, Scope, WhenExceeded
from app.domain.ids import TenantId
from app.services.errors import ServiceError
from app.services.money.budgets import BudgetService, NewBudget
from app.services.preconditions import IfMatch
from app.services.principal import Role
from tests.simulation.cloud import Violation
from tests.simulation.processes import Grounds
from tests.simulation.services import attempt, context, principal

TEAMS = ("red", "blue")
_OPERATOR = principal(Role.OPERATOR, None)
_MOST_BUDGETS = 4
_MOST_CHANGES = 12
_STEADY = 0.7
"""The share of seeds without changing prices in which budgets are set before the first lease, and stay as they are."""
_INTERVALS = (15.0, 15.0, 400.0)
"""Seconds between two runs of the job: as usual, and late. A late one leaves the new periods to others."""

_ENDED = text(
    """
    SELECT l.id, q.used + q.spent - b.amount AS excess, (
        SELECT coalesce(sum(a.price_per_hour * extract(epoch FROM until - ends) / 3600), 0)
        FROM lease o JOIN attempt a ON a.lease_id = o.id CROSS JOIN LATERAL (
            SELECT least(o.expires_at, o.cost_reached_at, o.release_requested_at + interval '10 minutes') AS ends,
                coalesce(a.billing_ended_at, now() + interval '10 minutes') AS until) t
        WHERE o.tenant_id = l.tenant_id AND a.billing_started_at IS NOT NULL
          AND coalesce(a.billing_ended_at, now()) > ends) AS overrun
    FROM lease l JOIN budget b ON l.reason->>'message' LIKE '%budget ' || b.id || '%'
    JOIN quota q ON q.tenant_id = l.tenant_id AND q.resource = 'budget:' || b.id
    WHERE l.reason->>'code' = 'budget_exceeded' AND l.desired = 'end' AND l.release_requested_at = now()
    """
)
"""Leases that the job of budgets ends now. `excess`: USD above the amount. `overrun`: at most what VMs cost that run on
after the ends that their leases committed for, with ten minutes more, and with disks and addresses left out.
"""
_PARTS = 2
"""Disks and addresses cost less than the VM."""
_REPEATED_THRESHOLDS = text(
    """
    SELECT data->>'budget_id' AS budget_id, data->>'resets_at' AS resets_at, data->>'threshold' AS threshold FROM event
    WHERE type = 'budget.threshold' GROUP BY 1, 2, 3 HAVING count(*) > 1
    """
)
_HELD = text("SELECT tenant_id, resource, used FROM quota WHERE used <> 0 ORDER BY 1, 2")


class BudgetPeople:
    """Everything they will do within `seconds` is arranged at once. The random numbers are their own.

    `active`: whether the seed has budgets. `steady`: nobody changes one after the first lease.
    """

    def __init__(self, grounds: Grounds, seed: int, tenants: Sequence[TenantId], seconds: float) -> None:
        self._grounds = grounds
        self._random = Random(f"budgets of {seed}")
        self._tenants = tenants
        self._ids: list[str] = []
        self.active = self._random.random() < grounds.weather.budgets
        self.steady = not grounds.weather.prices_move and self._random.random() < _STEADY
        grounds.budgets_interval = self._random.choice(_INTERVALS)
        if not self.active:
            return
        self._service = BudgetService(context(grounds))
        for _ in range(self._random.randint(1, _MOST_BUDGETS)):
            grounds.scheduler.at(0.0, self._create)
        for _ in range(0 if self.steady else self._random.randint(1, _MOST_CHANGES)):
            act = self._random.choice([self._create, self._change, self._change, self._delete])
            grounds.scheduler.at(self._random.uniform(10, seconds), act)

    def labels(self) -> dict[str, str]:
        """Labels of a new lease."""
        return {"team": self._random.choice(TEAMS)} if self.active else {}

    @property
    def relabels(self) -> bool:
        """Whether users move leases between budgets by their labels."""
        return self.active and not self.steady

    # --- changes ------------------------------------------------------------------------------------------

    def _create(self) -> None:
        random = self._random
        label = random.random() < 0.5
        new = NewBudget(
            tenant_id=random.choice(self._tenants),
            scope=Scope(kind=BudgetKind.LABEL, label=("team", random.choice(TEAMS)))
            if label
            else Scope(kind=BudgetKind.TENANT),
            period=random.choice(list(Period)),
            amount=self._amount(),
            thresholds=DEFAULT_THRESHOLDS,
            when_exceeded=random.choice(list(WhenExceeded)),
        )
        created = self._attempt("created", self._service.create(_OPERATOR, new, None))
        if created is not None:
            self._ids.append(created.values["id"])
            self._grounds.trace.tell(
                f"a budget of {new.amount} USD a {new.period} for {new.scope}: {new.when_exceeded}"
            )

    def _amount(self) -> Decimal:
        """What some leases of some minutes cost."""
        return Decimal(f"{self._random.choice([0.1, 0.5, 3.0]) * self._random.uniform(0.3, 3):.6f}")

    def _change(self) -> None:
        if self._ids:
            budget_id, values = self._random.choice(self._ids), {"amount": self._amount()}
            call = self._service.change(_OPERATOR, budget_id, values, IfMatch())
            if self._attempt("changed", call) is not None:
                self._grounds.trace.tell(f"a budget becomes {values['amount']} USD")

    def _delete(self) -> None:
        if self._ids:
            budget_id = self._ids.pop(self._random.randrange(len(self._ids)))
            self._attempt("deleted", self._service.remove(_OPERATOR, budget_id))

    def _attempt(self, what: str, call: Coroutine[Any, Any, Any]) -> Any:
        """None: it was refused."""
        answer = attempt(self._grounds, "budget", what, call)
        return None if isinstance(answer, ServiceError) else answer

    # --- promises -----------------------------------------------------------------------------------------

    def check_ended(self, *, restored: bool) -> None:
        """After each transaction of the jobs: at constant prices and amounts no admitted lease is ended by a budget.

        A VM that runs on after the end of its lease is billed: only that may take the room of another lease.
        """
        if not self.active or not self.steady or restored:
            return
        for row in self._grounds.clocked.connection.execute(_ENDED):
            if row.excess > row.overrun * _PARTS:
                raise Violation(f"{row.id} was admitted, and ends at constant prices: {row.excess} USD too much")

    def settle(self) -> None:
        """Everything is over: raises Violation."""
        rows = self._grounds.clocked.connection.execute
        for row in rows(_HELD):
            raise Violation(f"{row.tenant_id} still uses {row.used} of {row.resource}")
        for row in rows(_REPEATED_THRESHOLDS) if self.steady else ():
            raise Violation(f"threshold {row.threshold} of {row.budget_id} has two events until {row.resets_at}")
