"""Budgets under many clients, while API processes are killed: as many leases as fit are admitted, on each scope."""

import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from decimal import Decimal

import httpx

from tests.e2e.people import ONE_A10G, Json, Operator, Tenant
from tests.e2e.stack import Stack

ROOM = 50
LABEL = "team:race"
WISH: Json = {**ONE_A10G, "ttl_seconds": 86_400, "labels": {"team": "race"}}
"""A day: what a waiting lease holds falls by less than a hundredth in the minutes of a race."""
SCOPES = ("tenant", "key", "label")


def race_budgets(
    operator: Operator, stack: Stack, *, clients: int, rounds: int, requests: int, seed: int, say: Callable[[str], None]
) -> Json:
    """Each round as many as fit are admitted on each scope; everybody else is refused by the budget."""
    chance = random.Random(seed)
    admitted: list[int] = []
    refused: Counter[str] = Counter()
    left = []
    for kind in SCOPES:
        with operator.tenant(f"budget race {kind}", 100_000) as tenant, ThreadPoolExecutor(clients) as pool:
            path = _budget(tenant, kind)
            for number in range(rounds):
                names = [f"{kind} {number} {n}" for n in range(requests)]
                answers = [
                    pool.submit(tenant.ask_at_any_rate, {**WISH, "name": name}, name.replace(" ", "-"))
                    for name in names
                ]
                killed_after = chance.randrange(requests)
                for count, _ in enumerate(as_completed(answers)):
                    if count == killed_after:
                        stack.kill_one("api")
                found = [answer.result() for answer in answers]
                admitted.append(sum(answer.status_code == httpx.codes.CREATED for answer in found))
                refused.update(answer.json()["code"] for answer in found if answer.status_code != httpx.codes.CREATED)
                stack.wait_until_ready()
                tenant.release_all()
                left.append(tenant.get(path)["committed"])
                say(f"budget race on the {kind}: round {number + 1} of {rounds}, {admitted[-1]} admitted")
    fine = set(admitted) == {min(ROOM, requests)} and set(refused) <= {"budget_exceeded"} and set(left) == {"0.00"}
    return {
        "what": f"on {', '.join(SCOPES)}: {rounds} rounds of {requests} creates by {clients} clients against a budget "
        f"with room for {ROOM}, an API process killed in each",
        "admitted": admitted,
        "refusals": dict(refused),
        "committed_afterwards": left,
        "as_it_has_to_be": fine,
    }


def _budget(tenant: Tenant, kind: str) -> str:
    """A budget of half a lease more than ROOM leases. Answers its path."""
    member = {"key": {"key_id": tenant.get("/v1/me")["key_id"]}, "label": {"label": LABEL}}.get(kind, {})
    body = {"scope": {"kind": kind, **member}, "period": "lifetime", "amount": "1.00"}
    made = tenant.http.post("/v1/budgets", json=body)
    made.raise_for_status()
    path = f"/v1/budgets/{made.json()['id']}"
    (need,) = tenant.plan(WISH)["budgets"]
    tenant.patch(path, {"amount": f"{Decimal(need['asked']) * (ROOM + Decimal('0.5')):.6f}"})
    return path
