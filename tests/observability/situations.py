"""Every situation that an operator must learn of: how it is caused, and the name that each view must show, in time.

`python -m tests.observability` causes each of them and prints the seconds until each view said so. A test does the same.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import LiteralString

from app.db.fleet import jobs
from app.domain.brakes import BrakeName
from app.domain.error_kinds import ErrorKind
from tests.observability.night import Night
from tests.workers.first_view import ACCESS_KEY
from tests.workers.fleet import ACCOUNT, REGION
from workers.providers import errors
from workers.providers.aws.rights import RIGHTS

Cause = Callable[[Night], Awaitable[None]]
SOON = 60.0
"""Seconds until everything but the alert says it, usually: a few scrapes."""
LOG, ALERT = "log", "alert"
NOT_LOGGED = "a process that is gone, or does nothing, writes nothing"
ITSELF = "the next listings end it, see docs/operations.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """`word`: what the API, `gpulease ops summary` and the dashboard show; `elsewhere`: another word at some of them.

    `metric`: an expression of PromQL that has a sample. `log`: the event of a line, and one of its values.
    `within`: seconds until they say it; `alarms_within`: until the alert fires. `silent`: why a view says nothing.
    `group`: its row in docs/observability.md.
    """

    group: str
    cause: Cause
    word: str
    metric: str
    alert: str | None
    alarms_within: float
    log: tuple[str, str] | None = None
    within: float = SOON
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    silent: Mapping[str, str] = field(default_factory=dict)


def _sql(statement: LiteralString) -> Cause:
    async def cause(night: Night) -> None:
        night.run(statement)

    return cause


# --- brakes -----------------------------------------------------------------------------------------------------


async def hold(night: Night) -> None:
    night.fleet.put_on_hold()


async def stop_launches(night: Night) -> None:
    answer = await night.operator.put("/v1/ops/launches", json={"stopped": True})
    assert answer.status_code == 200, answer.text


async def cordon(night: Night) -> None:
    answer = await night.operator.put(f"/v1/ops/accounts/{ACCOUNT}/cordon", json={"cordoned": True})
    assert answer.status_code == 200, answer.text


async def cordon_offerings(night: Night) -> None:
    where = {"region": REGION, "instance_type": "g5.xlarge"}
    answer = await night.operator.put(f"/v1/ops/accounts/{ACCOUNT}/cordon", json={"cordoned": True, "offerings": where})
    assert answer.status_code == 200, answer.text


async def use_other_credentials(night: Night) -> None:
    night.sim.credentials(accounts={"AKIA": "000000000009"})


async def reject_credentials(night: Night) -> None:
    night.sim.credentials(bad=[ACCESS_KEY])


async def block(night: Night) -> None:
    night.sim.refuse_launches("Blocked")
    ask(night)


async def answer_no_listing(night: Night) -> None:
    night.sim.fault("DescribeInstances", "error", code="InternalError", times=None)


async def lose_many(night: Night) -> None:
    leases = [night.fleet.create() for _ in range(6)]
    night.fleet.drive_all_to(leases, "active")
    night.sim.settings(terminated_visible_seconds=0)
    for vm in night.fleet.vms():
        night.sim.stop(vm["id"])


async def plant_many(night: Night) -> None:
    for _ in range(6):
        night.fleet.plant(tags={"gpulease-installation": night.fleet.runtime.installation.id})


async def restart_without_listings(night: Night) -> None:
    await answer_no_listing(night)
    night.use(night.start(observe=False))


async def leave(night: Night, *, regions: str) -> None:
    """A lease is active. Then the account, or its region, is in the file no more."""
    night.fleet.drive_all_to([night.fleet.create()], "active")
    text = f'[[accounts]]\nprovider = "aws"\nname = "{ACCOUNT if regions else "other"}"\nendpoint_url = "{night.sim.url}"\n'
    night.use(night.start(config=night.file(text + f'regions = ["{regions or REGION}"]\n')))


def ask(night: Night, disk_gib: int = 100) -> None:
    """A lease that waits for two hours."""
    night.fleet.create(wait_seconds=7200, disk_gib=disk_gib)


_ENDS = {
    BrakeName.VANISHED: ITSELF,
    BrakeName.OFFERING_CORDON: "the operator has made this change, and placement uses other offerings",
}


def _brake(brake: BrakeName, cause: Cause, alert: str | None, within: float, alarms_within: float) -> Situation:
    return Situation(
        group=f"brake `{brake}`",
        cause=cause,
        word=brake,
        elsewhere={"API": f'"brake":"{brake}"'},
        metric=f'gpulease_brake_active{{brake="{brake}"}} > 0',
        alert=alert,
        log=("brake set", brake),
        within=within,
        alarms_within=alarms_within,
        silent={} if alert else {ALERT: _ENDS.get(brake, "the operator has made this change, and a VM ends it")},
    )


BRAKES = (
    _brake(BrakeName.HOLD, hold, "GpuleaseOnHold", SOON, 60),
    _brake(BrakeName.LAUNCHES_STOPPED, stop_launches, "GpuleaseLaunchesStopped", SOON, 4000),
    _brake(BrakeName.CORDON, cordon, "GpuleaseAccountCordoned", SOON, 4000),
    _brake(BrakeName.OFFERING_CORDON, cordon_offerings, None, SOON, 0),
    _brake(BrakeName.PINNED_IDENTITY, use_other_credentials, "GpuleaseAccountSetAside", 120, 300),
    _brake(BrakeName.CREDENTIALS_REJECTED, reject_credentials, "GpuleaseAccountSetAside", 120, 300),
    _brake(BrakeName.ACCOUNT_BLOCKED, block, "GpuleaseAccountBlocked", SOON, 300),
    _brake(BrakeName.SILENCE, answer_no_listing, "GpuleaseGarbageCollectionStalled", 180, 420),
    _brake(BrakeName.VANISHED, lose_many, None, 120, 0),
    _brake(BrakeName.ROWLESS, plant_many, "GpuleaseVmWithoutRow", 120, 120),
    _brake(BrakeName.FIRST_LISTING, restart_without_listings, "GpuleaseGarbageCollectionStalled", SOON, 420),
    _brake(BrakeName.DRAINING, partial(leave, regions=""), None, SOON, 0),
    _brake(BrakeName.REGION_LEFT, partial(leave, regions="us-west-2"), None, SOON, 0),
)


# --- errors of providers ----------------------------------------------------------------------------------------


def _failing(kind: ErrorKind) -> Cause:
    """Three leases wait, and every create call ends so."""

    async def cause(night: Night) -> None:
        night.failing.errors["launch"] = getattr(errors, kind)("as a test wants", code="TestCode")
        for number in range(3):  # unequal ones share no call
            ask(night, disk_gib=100 + number)

    return cause


def _refused(kind: ErrorKind, reason: str, alert: str, alarms_within: float, within: float = SOON) -> Situation:
    return Situation(
        group=f"launches end with `{reason}`",
        cause=_failing(kind),
        word=reason,
        elsewhere={"API": f'"reason":"{reason}"'},
        metric=f'gpulease_refused_launches{{reason="{reason}"}} > 0',
        alert=alert,
        log=("launch failed", "NotPermitted" if kind is ErrorKind.NEVER_SEEN else kind),
        within=within,
        alarms_within=alarms_within,
    )


def _waiting(kind: ErrorKind) -> Situation:
    return Situation(
        group='create calls are answered with "later"',
        cause=_failing(kind),
        word="provisioning",
        elsewhere={"API": '"kind":"provisioning"', "summary": "Stuck leases", "dashboard": "stuck provisioning"},
        metric='gpulease_stuck_leases{kind="provisioning"} > 0',
        alert="GpuleaseLaunchStuck",
        log=("launch failed", kind),
        within=420,
        alarms_within=1200,
    )


_REFUSED, _CAPACITY = "GpuleaseLaunchesRefused", "GpuleaseNoCapacity"
ERRORS: Mapping[ErrorKind, Situation] = {
    **{kind: _refused(kind, "refused", _REFUSED, 400) for kind in (
        ErrorKind.REFUSED, ErrorKind.INVALID_SPEC, ErrorKind.IMAGE_MISSING, ErrorKind.NOT_PERMITTED,
        ErrorKind.CREDENTIALS_REJECTED)},
    **{kind: _refused(kind, "no_capacity", _CAPACITY, 2200) for kind in (
        ErrorKind.INSUFFICIENT_CAPACITY, ErrorKind.NETWORK_FULL, ErrorKind.PRICE_TOO_LOW)},
    ErrorKind.PROVIDER_QUOTA_EXCEEDED: _refused(ErrorKind.PROVIDER_QUOTA_EXCEEDED, "provider_quota", _CAPACITY, 2200),
    ErrorKind.NOT_OFFERED: _refused(ErrorKind.NOT_OFFERED, "not_offered", _CAPACITY, 2200),
    ErrorKind.UNREACHABLE: _refused(ErrorKind.UNREACHABLE, "provider_error", _REFUSED, 600, 300),
    **{kind: _refused(kind, "provider_error", _REFUSED, 1800, 1200) for kind in (
        ErrorKind.PROVIDER_ERROR, ErrorKind.OUTCOME_UNKNOWN, ErrorKind.NOT_FOUND, ErrorKind.TOKEN_CONFLICT)},
    **{kind: _waiting(kind) for kind in (ErrorKind.THROTTLED, ErrorKind.NOT_READY, ErrorKind.SEND_EXPIRED)},
}  # fmt: skip
ALSO: Mapping[ErrorKind, str] = {
    ErrorKind.ACCOUNT_BLOCKED: "the brake account_blocked",
    ErrorKind.REGION_BLOCKED: "the brake account_blocked",
    ErrorKind.IDENTITY_CHANGED: "the brake pinned_identity",
    ErrorKind.MASS_LOSS: "the brakes vanished and rowless",
    ErrorKind.NEVER_SEEN: "as OutcomeUnknown, whose attempts end with it",
    ErrorKind.LOST: "one lease: its event and its reason instance_lost",
    ErrorKind.VM_ENDED: "one lease: its event and its reason",
    ErrorKind.LAUNCH_TIMEOUT: "one lease: its event, and the cool-off of the offering",
    ErrorKind.GPU_CHECK_FAILED: "one lease: its event, and the cool-off of the offering",
}
"""Classes of errors that no create call ends with, and what says them."""


# --- rights -----------------------------------------------------------------------------------------------------


def _denied(right: str) -> Situation:
    async def cause(night: Night) -> None:
        """A minute before the daily checks."""
        night.sim.deny(right)
        night.run("UPDATE account_check SET checked_at = now() - interval '1439 minutes'")

    return Situation(
        group="a right is denied, until the daily checks",
        cause=cause,
        word=right,
        metric="gpulease_account_failed_checks > 0",
        alert="GpuleaseAccountChecksFail",
        log=("account checks failed", right),
        within=180,
        alarms_within=600,
    )


# --- processes and what they need -------------------------------------------------------------------------------


def _gone(kind: str) -> Situation:
    async def cause(night: Night) -> None:
        night.alive.discard(kind)

    return Situation(
        group=f"no process `{kind}`",
        cause=cause,
        word=f"no {kind} process reported",
        metric=f'gpulease_process_heartbeat_age_seconds{{kind="{kind}"}} > 60',
        alert="GpuleaseProcessesMissing",
        silent={LOG: NOT_LOGGED},
        within=120,
        alarms_within=120,
    )


async def end_api(night: Night) -> None:
    night.alive.discard("api")


async def need_a_deadman(night: Night) -> None:
    night.run("INSERT INTO account (name, provider, config, state) VALUES ('azure', 'azure', '{}', 'ok')")


async def expire_deadman_key(night: Night) -> None:
    await need_a_deadman(night)
    await night.report_with_expired_key()


async def end_redis(night: Night) -> None:
    metrics = night.app.state.metrics
    metrics.redis_answered(up=False)
    vars(metrics)["redis_answered"] = lambda **_: None


async def lose_a_host(night: Night) -> None:
    night.fleet.runtime.database.run(jobs.beat_at("host-2", "worker-at-host-2", "worker"))


async def wrong_clock(night: Night) -> None:
    night.host_clock_ahead = 9.0


async def fill_the_disk(night: Night) -> None:
    night.refuse_writes("53100")
    night.each_step.append(night.request_a_change)


async def ask_for_too_much(night: Night) -> None:
    night.sweeps = False
    for _ in range(20):
        ask(night)


_DEADMAN = "the dead-man switch reported no pass"
PROCESSES: Mapping[str, Situation] = {
    "worker": _gone("worker"),
    "inventory": _gone("inventory"),
    "api": Situation(
        group="no process `api`",
        cause=end_api,
        word="",
        metric="absent(gpulease_database_up)",
        alert="GpuleaseMetricsMissing",
        silent={**dict.fromkeys(("API", "summary", "dashboard"), "they come from the API"), LOG: NOT_LOGGED},
        alarms_within=420,
    ),
    "deadman": Situation(
        group="no dead-man switch",
        cause=need_a_deadman,
        word=_DEADMAN,
        metric="gpulease_deadman_heartbeat_age_seconds > 900",
        alert="GpuleaseDeadmanSilent",
        silent={LOG: NOT_LOGGED},
        alarms_within=60,
    ),
    "redis": Situation(
        group="no Redis",
        cause=end_redis,
        word="Redis does not answer",
        metric="gpulease_redis_up == 0",
        alert="GpuleaseRedisDown",
        silent={LOG: "tests/test_hints.py and tests/api/test_shared_rate_limits.py read the lines"},
        alarms_within=420,
    ),
    "one of two hosts": Situation(
        group="one of two hosts",
        cause=lose_a_host,
        word="host-2",
        metric="gpulease_lost_hosts > 0",
        alert="GpuleaseHostLost",
        silent={LOG: NOT_LOGGED},
        within=120,
        alarms_within=120,
    ),
}


# --- the database, keys, and hosts --------------------------------------------------------------------------------


def _refuses(state: str) -> Situation:
    async def cause(night: Night) -> None:
        await night.lose_database(state)

    return Situation(
        group="PostgreSQL refuses every login",
        cause=cause,
        word="database_unavailable",
        metric="gpulease_database_up == 0",
        alert="GpuleaseDatabaseDown",
        log=("request", "503"),
        alarms_within=120,
        silent={"dashboard": "it shows the error of the API on every page"},
    )


STATES = (
    *("08006", "28000", "28P01", "3D000", "42501", "53100", "53300", "57P01", "57P02", "57P03", "58030"),
    *("25006", "25P03", "25P04", "26000"),
)
"""SQLSTATEs with which PostgreSQL ends a login or a session: of each class and each state of `server_state`."""

HOST: Mapping[str, Situation] = {
    "clock of an API host": Situation(
        group="a wrong clock",
        cause=wrong_clock,
        word="the host's clock is 9 s ahead",
        metric="gpulease_clock_error_seconds > 5",
        alert="GpuleaseClockWrong",
        silent={LOG: "written at the start of a process alone"},
        alarms_within=180,
    ),
    "disk of the database": Situation(
        group="a full disk of the database",
        cause=fill_the_disk,
        word="late job",
        elsewhere={"API": '"late_jobs":[{', "summary": "Late jobs"},
        metric='gpulease_http_requests_total{status="503"} > 0',
        alert="GpuleaseApiFails",
        log=("database away", "jobs"),
        within=300,
        alarms_within=600,
    ),
    "key of the dead-man switch": Situation(
        group="an expired key of the dead-man switch",
        cause=expire_deadman_key,
        word=_DEADMAN,
        metric="gpulease_deadman_heartbeat_age_seconds > 900",
        alert="GpuleaseDeadmanSilent",
        log=("request", "401"),
        within=1100,
        alarms_within=1100,
    ),
    "queue": Situation(
        group="a growing queue",
        cause=ask_for_too_much,
        word="20 leases wait for a worker",
        elsewhere={"API": '"overdue":{"leases":20'},
        metric="gpulease_overdue_seconds > 60",
        alert="GpuleaseQueueStalled",
        silent={LOG: NOT_LOGGED},
        within=120,
        alarms_within=240,
    ),
}


# --- leases, VMs and money ----------------------------------------------------------------------------------------


async def outlive(night: Night) -> None:
    """The VM of an ended lease is there, and the provider refuses to end it."""
    lease_id = night.active()
    night.fleet.end(lease_id)
    night.fleet.drive_to(lease_id, "released")
    night.sim.protect(night.plant_genuine(lease_id))


async def lose_one_on_hold(night: Night) -> None:
    night.active()
    night.fleet.put_on_hold()
    night.sim.stop(night.fleet.vms()[0]["id"])


async def settle_for_long(night: Night) -> None:
    await _failing(ErrorKind.TOKEN_CONFLICT)(night)
    await answer_no_listing(night)


async def release_in_vain(night: Night) -> None:
    lease_id = night.active()
    night.sim.protect(night.fleet.vms()[0]["id"])
    night.fleet.end(lease_id)


async def extend_in_vain(night: Night) -> None:
    lease_id = night.active()
    night.failing.errors["set_deadline"] = errors.NotPermitted("no", code="UnauthorizedOperation")
    night.fleet.extend(lease_id, 72_000)
    night.fleet.make_due(lease_id)


async def number_nothing(night: Night) -> None:
    night.numbers = False
    night.active()


async def break_steps(night: Night) -> None:
    night.fleet.may_break_off = True
    night.failing.errors["launch"] = RuntimeError("a bug")
    ask(night)


async def fail_a_job(night: Night) -> None:
    night.refuse_writes("P0001", "invariant")


async def be_slow(night: Night) -> None:
    night.each_step.append(lambda: night.fleet.runtime.metrics.became_ready("aws", "spot", 2000.0))


_OF_A_PROCESS = "a counter of each process; the summary has what follows from it"
DATA: Mapping[str, Situation] = {
    "a VM outlives its lease": Situation(
        group="a VM without a lease",
        cause=outlive,
        word="ended_lease",
        metric='gpulease_orphan_vms{cause="ended_lease"} > 0',
        alert="GpuleaseOrphanVm",
        log=("orphan", "ended_lease"),
        within=120,
        alarms_within=300,
    ),
    "a lease without a VM": Situation(
        group="a lease without a VM",
        cause=lose_one_on_hold,
        word="without a VM",
        elsewhere={"API": '"ghost_leases":[{'},
        metric="gpulease_ghost_leases > 0",
        alert="GpuleaseGhostLease",
        silent={LOG: "the hold, its cause, is logged"},
        within=120,
        alarms_within=300,
    ),
    "a create that is not settled": Situation(
        group="a create of unknown outcome",
        cause=settle_for_long,
        word="settling",
        elsewhere={"API": '"kind":"settling"'},
        metric="gpulease_settling_attempts > 0",
        alert="GpuleaseSettlingTooLong",
        log=("launch failed", "TokenConflict"),
        alarms_within=2200,
    ),
    "a release that the provider refuses": Situation(
        group="a release in vain",
        cause=release_in_vain,
        word="releasing",
        elsewhere={"API": '"kind":"releasing"', "summary": "Stuck leases", "dashboard": "stuck releasing"},
        metric='gpulease_stuck_leases{kind="releasing"} > 0',
        alert="GpuleaseReleaseStuck",
        silent={LOG: "the reason of the lease has it"},
        within=1100,
        alarms_within=1100,
    ),
    "a deadline that is not written": Situation(
        group="a deadline tag behind",
        cause=extend_in_vain,
        word="deadline",
        elsewhere={"API": '"kind":"deadline"'},
        metric='gpulease_stuck_leases{kind="deadline"} > 0',
        alert="GpuleaseDeadlineTagBehind",
        log=("deadline not written", "UnauthorizedOperation"),
        within=120,
        alarms_within=500,
    ),
    "quota that differs": Situation(
        group="quota in use that differs",
        cause=_sql("UPDATE quota SET used = used + 1 WHERE resource = 'gpus'"),
        word="used equals the claims",
        metric="gpulease_quota_drift > 0",
        alert="GpuleaseQuotaDrift",
        log=("invariant broken", "used equals the claims"),
        within=400,
        alarms_within=120,
    ),
    "an invariant": Situation(
        group="a broken invariant",
        cause=_sql("UPDATE quota SET used = used + 1 WHERE resource = 'gpus'"),
        word="used equals the claims",
        metric="gpulease_invariant_violations > 0",
        alert="GpuleaseInvariantBroken",
        log=("invariant broken", "used equals the claims"),
        within=400,
        alarms_within=400,
    ),
    "events without a number": Situation(
        group="events that nobody numbers",
        cause=number_nothing,
        word="the oldest has no number",
        elsewhere={"API": '"unnumbered_seconds":1'},
        metric="gpulease_unnumbered_event_seconds > 60",
        alert="GpuleaseEventsStalled",
        silent={LOG: NOT_LOGGED},
        within=200,
        alarms_within=240,
    ),
    "webhooks without a worker": Situation(
        group="webhooks that nobody sends",
        cause=_sql(
            "INSERT INTO webhook (id, tenant_id, url, position, next_due)"
            " SELECT 'webhook_1', id, 'https://a.example', 0, now() FROM tenant LIMIT 1"
        ),
        word="for a worker for",
        elsewhere={"API": '"webhooks_seconds":1'},
        metric="gpulease_webhook_overdue_seconds > 60",
        alert="GpuleaseWebhooksStalled",
        silent={LOG: NOT_LOGGED},
        within=200,
        alarms_within=400,
    ),
    "charges without a lease": Situation(
        group="charges without a lease",
        cause=_sql(
            "INSERT INTO invoice_import (id, file_name, file_hash, provider, month, lines, unlisted_resources)"
            " VALUES ('import_1', 'focus.csv', '', 'aws', date_trunc('month', now()), 1, 3)"
        ),
        word="unlisted charges",
        elsewhere={"API": '"unlisted_charges":3', "summary": "unlisted charges 3"},
        metric="gpulease_unlisted_charges > 0",
        alert="GpuleaseUnlistedCharge",
        silent={LOG: "the import prints ALARM, and ends with the code 1"},
        alarms_within=60,
    ),
    "a job that fails": Situation(
        group="a periodic job that fails",
        cause=fail_a_job,
        word="recount",
        elsewhere={"API": '"late_jobs":[{"kind":"recount"'},
        metric='gpulease_job_failures_total{kind="recount"} > 0',
        alert="GpuleaseJobLate",
        log=("statement failed", "recount"),
        within=1100,
        alarms_within=1500,
    ),
    "a step that fails": Situation(
        group="a bug in a step of a lease",
        cause=break_steps,
        word="",
        metric='gpulease_step_failures_total{reason="bug"} > 0',
        alert="GpuleaseStepsFail",
        log=("step failed", "error"),
        silent=dict.fromkeys(("API", "summary", "dashboard"), _OF_A_PROCESS),
        alarms_within=60,
    ),
    "slow starts": Situation(
        group="slow starts of VMs",
        cause=be_slow,
        word="",
        metric="gpulease_time_to_ready_seconds_count > 0",
        alert="GpuleaseSlowToReady",
        silent={
            **dict.fromkeys(("API", "summary", "dashboard"), "they have the times to ready, without a limit"),
            LOG: NOT_LOGGED,
        },
        alarms_within=1200,
    ),
    "calls of an account": Situation(
        group="calls of an account that fail",
        cause=answer_no_listing,
        word="silence",
        metric="gpulease_provider_errors_total > 0",
        alert="GpuleaseCloudCallsFail",
        log=("brake set", "silence"),
        within=180,
        alarms_within=900,
    ),
}

SITUATIONS: Mapping[str, Situation] = {
    **{f"brake {situation.word}": situation for situation in BRAKES},
    **{f"error {kind}": situation for kind, situation in ERRORS.items()},
    **{f"right {right}": _denied(right) for right in sorted(RIGHTS)},
    **{f"process {kind}": situation for kind, situation in PROCESSES.items()},
    **{f"SQLSTATE {state}": _refuses(state) for state in STATES},
    **HOST,
    **DATA,
}


def table() -> list[str]:
    """The rows of the table in docs/observability.md: a line for each group."""
    groups: dict[str, list[Situation]] = {}
    for situation in SITUATIONS.values():
        groups.setdefault(situation.group, []).append(situation)
    return [_row(group, members) for group, members in groups.items()]


def _row(group: str, members: list[Situation]) -> str:
    words = {situation.word for situation in members}
    word = words.pop() if len(words) == 1 else "its name"
    alerts = {situation.alert for situation in members} - {None}
    alert = ", ".join(sorted(f"`{alert}`" for alert in alerts)) or "–"
    log = members[0].log
    within = max(situation.within for situation in members)
    until = max(situation.alarms_within for situation in members)
    cells = (
        group,
        word or "–",
        f"`{log[0]}`" if log else "–",
        f"{within:.0f}",
        alert,
        f"{until:.0f}" if alerts else "–",
    )
    return f"| {' | '.join(cells)} |"
