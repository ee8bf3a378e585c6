"""`python -m tests.races`: quotas, budgets and repeated creates under many clients, on a stack of its own.

Launches are stopped meanwhile: what is raced for is admission. Exits with 1 when a number is not what it has to be.
"""

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from bench import ending
from tests.e2e.people import ONE_A10G, Json, Operator, Tenant
from tests.e2e.stack import Stack, running
from tests.races.budgets import race_budgets
from tests.reports import FOLDER, Table, report

CLIENTS = 64
LIMIT = 100
AMPLE = 100_000
APIS = 2
KILLS = 8


def main(arguments: Sequence[str]) -> int:
    """0 when everything is as it has to be."""
    parser = argparse.ArgumentParser(prog="python -m tests.races", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="of the quota race")
    parser.add_argument("--requests", type=int, default=1280, help="in a round")
    parser.add_argument("--budget-rounds", type=int, default=20, help="of the budget race, on each scope")
    parser.add_argument("--budget-requests", type=int, default=200, help="in a round of the budget race")
    parser.add_argument("--creates", type=int, default=2000, help="each sent 1 to 5 times")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", type=Path, default=FOLDER / "races.json", help="the file for the evidence")
    given = parser.parse_args(arguments)
    ending.on_request()
    with tempfile.TemporaryDirectory(prefix="gpulease-races-") as folder:
        options = ("--api", str(APIS), "--workers", "1", "--clouds", "aws")
        with running(Path(folder), *options) as stack, _operator(stack) as operator:
            operator.wait_for_offerings("aws")
            operator.stop_launches(stopped=True)
            races = {
                "quota": quota(operator, given.rounds, given.requests),
                "budgets": race_budgets(
                    operator,
                    stack,
                    clients=CLIENTS,
                    rounds=given.budget_rounds,
                    requests=given.budget_requests,
                    seed=given.seed,
                    say=_say,
                ),
                "repeated creates": repeats(operator, stack, given.creates, given.seed),
            }
    report(given.report, {"races": races}, *_tables(races))
    return 0 if all(race["as_it_has_to_be"] for race in races.values()) else 1


def _tables(races: Mapping[str, Json]) -> Iterator[Table]:
    """A line for each figure. The figures of each round are in the evidence."""
    for name, race in races.items():
        figures = {key: _short(value) for key, value in race.items() if key != "what"}
        yield Table(title=f"{name}: {race['what']}", columns=("", ""), rows=list(figures.items()))


def _short(value: Any) -> Any:
    """Equal figures of many rounds are one figure."""
    if isinstance(value, list):
        return ", ".join(f"{count} × {figure}" for figure, count in sorted(Counter(value).items()))
    return len(value) if isinstance(value, dict) else value


def quota(operator: Operator, rounds: int, requests: int) -> Json:
    """Each round as many as the limit are admitted; nobody else is, and everybody else is told the numbers."""
    admitted, other = [], 0
    falsely_refused: Counter[str] = Counter()
    with operator.tenant("quota race", LIMIT) as tenant, ThreadPoolExecutor(CLIENTS) as pool:
        ask = partial(_ask, tenant)
        for number in range(rounds):
            names = [f"{number} {n}" for n in range(requests)]
            answers = list(pool.map(ask, names))
            counted = Counter(answer.status_code for answer in answers)
            refused = [answer.json() for answer in answers if answer.status_code == httpx.codes.CONFLICT]
            falsely_refused.update(
                f"{one['code']}: {one['detail']}"
                for one in refused
                if one["code"] != "quota_exceeded" or one["used"] != LIMIT
            )
            other += sum(counted.values()) - counted[httpx.codes.CREATED] - counted[httpx.codes.CONFLICT]
            admitted.append(counted[httpx.codes.CREATED])
            tenant.release_all()
            _say(f"quota race: round {number + 1} of {rounds}, {admitted[-1]} admitted")
        left = tenant.used()
    fine = set(admitted) == {min(LIMIT, requests)} and not falsely_refused and not other and not left
    return {
        "what": f"{rounds} rounds of {requests} creates by {CLIENTS} clients against a quota of {LIMIT}",
        "admitted": admitted,
        "refused_otherwise": dict(falsely_refused),
        "other_answers": other,
        "used_afterwards": left,
        "as_it_has_to_be": fine,
    }


def _ask(tenant: Tenant, name: str) -> httpx.Response:
    """A broken connection is no answer: the create is sent again under its key."""
    key = f"quota-{name.replace(' ', '-')}"
    return tenant.ask_at_any_rate(_wish(name), key, refusals=frozenset({"quota_exceeded"}))


def repeats(operator: Operator, stack: Stack, creates: int, seed: int) -> Json:
    """Each create is sent one to five times at once, while API processes are killed: each makes one lease."""
    chance = random.Random(seed)
    sent = [n for n in range(creates) for _ in range(chance.randint(1, 5))]
    chance.shuffle(sent)
    with operator.tenant("repeated creates", AMPLE) as tenant, ThreadPoolExecutor(CLIENTS) as pool:
        answers = [pool.submit(tenant.create_at_any_rate, _wish(f"one {n}"), f"create-{n}") for n in sent]
        for count, _ in enumerate(as_completed(answers), start=1):
            if count % (len(sent) // (KILLS + 1)) == 0:
                stack.kill_one("api")
                _say(f"repeated creates: {count} of {len(sent)} answered, an API process killed")
        made = {n: {answer.result() for m, answer in zip(sent, answers, strict=True) if m == n} for n in set(sent)}
        leases = len(tenant.leases())
        _release(tenant, stack)
    fine = leases == creates and all(len(ids) == 1 for ids in made.values())
    return {
        "what": f"{creates} creates sent {len(sent)} times by {CLIENTS} clients, {KILLS} API processes killed meanwhile",
        "leases": leases,
        "keys_with_several_leases": sum(len(ids) > 1 for ids in made.values()),
        "as_it_has_to_be": fine,
    }


def _release(tenant: Tenant, stack: Stack) -> None:
    stack.wait_until_ready()
    tenant.release_all()


def _operator(stack: Stack) -> Operator:
    return Operator(stack.credentials.api_url, stack.credentials.operator_key)


def _wish(name: str) -> Json:
    return {**ONE_A10G, "name": name}


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
