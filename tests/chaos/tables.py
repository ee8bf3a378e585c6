"""A report as short tables for people."""

from typing import Any

from tests.reports import Table

_LATEST = 5
_NAMES = {
    "kill": "processes killed",
    "flush": "Redis emptied",
    "postgres_restart": "PostgreSQL restarted",
    "redis_outage": "Redis away",
    "cloud_outage": "a cloud away",
    "failover": "failovers that lost commits",
    "restore": "restores from a backup",
    "price_move": "spot prices moved",
    "limit": "limits tightened and loosened",
    "reclaim": "spot VMs reclaimed",
    "cancel": "leases cancelled",
    "copied_tags": "VMs started with copied tags",
    "group_scaled": "groups scaled",
    "group_released": "groups released",
    "vm_stopped": "VMs of members stopped at the cloud",
    "shortage": "clouds short of room",
    "next_day": "days that passed at once",
}


def tables(report: dict[str, Any]) -> list[Table]:
    """What happened, what came of it, what is wrong; details of what is wrong last."""
    happened = Table(
        title=f"Chaos, seed {report['seed']}: {report['leases']:,} leases in {report['seconds']:,} s",
        columns=("what happened", "times"),
        rows=[(name, report["happened"].get(what, 0)) for what, name in _NAMES.items()],
    )
    outcome = Table(
        title="What came of it",
        columns=("", ""),
        rows=[
            *((f"leases {state}", f"{count:,}") for state, count in sorted(report["states"].items())),
            *((f"groups {state}", f"{count:,}") for state, count in sorted(report["groups"].items())),
            ("groups formed; pools that failed", f"{report['groups_formed']:,}; {report['pools_failed']:,}"),
            ("launch batches; most slots of one", f"{report['batches']:,}; {report['largest_batch']:,}"),
            ("kinds of shared resources seen", f"{len(report['shared_kinds']):,}"),
            *((what, f"{count:,}") for what, count in sorted(report["volumes"].items())),
            ("leases and groups whose rows the database lost", f"{report['rows_lost']:,}; {report['groups_lost']:,}"),
            ("living VMs without a row at that moment", f"{report['vms_without_row']:,}"),
            ("of these VMs without a lease's tags", f"{report['vms_without_lease']:,}"),
            ("VMs that could not be adopted and that the operator ended", f"{report['ended_by_operator']:,}"),
            ("holds until the operator resumed", ", ".join(f"{seconds} s" for seconds in report["holds"]) or "none"),
            ("p95 from the request to active", f"{report['p95']:.1f} s"),
            ("leases ended by their spend cap", f"{report['ended_by_cap']:,}"),
            ("longest time beyond a spend cap", f"{report['longest_beyond_cap_seconds']} s"),
            ("quiet after the last fault", f"{report['quiet_seconds_after_the_last_fault']} s"),
            *(
                (f"until then {what}", f"{seconds} s")
                for what, seconds in [*report["restless_until"].items()][:_LATEST]
            ),
        ],
    )
    wrong = Table(
        title="What is wrong (all must be 0)",
        columns=("check", "found"),
        rows=[(what, len(found)) for what, found in report["checks"].items()],
    )
    details = [(what, line) for what, found in report["checks"].items() for line in found]
    shown = Table(title="Details", columns=("check", "what was found"), rows=details)
    return [happened, outcome, wrong, *([shown] if details else [])]
