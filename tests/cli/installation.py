"""An installation as the operators' calls of the API show it."""

from typing import Any

from tests.cli.fake_api import Json

SUMMARY = ("GET", "/v1/ops/summary")


def a_group(name: str, leases: int, spend: str) -> Json:
    return {"name": name, "leases": leases, "gpus": 8 * leases, "spend_per_hour": spend}


def a_summary(**changes: object) -> Json:
    return {
        "as_of": "2026-06-01T11:59:50Z",
        "brakes": {"installation_id": "install-7", "launches_stopped": None, "hold": None},
        "by_state": [{"state": "queued", "leases": 2, "gpus": 0}, {"state": "active", "leases": 31, "gpus": 248}],
        "by_provider": [a_group("aws", 30, "612.40"), a_group("gcp", 1, "21.96")],
        "by_region": [a_group(f"region-{number}", number, f"{number}.00") for number in range(1, 13)],
        "by_gpu_model": [a_group("A100", 31, "634.36")],
        "gpus": 248,
        "spend_per_hour": "634.36",
        "spend_month_to_date": "10401.77",
        "orphans": [{"cause": "lost_row", "orphans": 3}, {"cause": "leftover", "orphans": 0}],
        "stuck": [
            {
                "kind": "booting",
                "lease_id": f"lease_{number:026}",
                "tenant_id": "tenant_00000000000000000000000001",
                "state": "booting",
                "account": "main",
                "region": "us-east-1",
                "since": "2026-06-01T11:40:00Z",
            }
            for number in range(5)
        ],
        "time_to_ready": {"leases": 30, "p50_seconds": 64.0, "p95_seconds": None},
        "invariants": {"checked_at": None, "broken": []},
        "active_brakes": [],
        "refused_launches": [],
        "late_jobs": [],
        "failed_checks": [],
        "events": {"unnumbered_seconds": 0.0, "webhooks_seconds": 0.0},
        "overdue": {"leases": 0, "seconds": 0.0},
        "unlisted_charges": 0,
        "lost_hosts": [],
        "ghost_leases": [],
        "warnings": [],
        **changes,
    }


def an_event(sequence: int, lease_id: str = "lease_00000000000000000000000001", **changes: Any) -> Json:
    head = {"id": f"event_{sequence}", "sequence": sequence, "lease_id": lease_id, "type": f"lease.number{sequence}"}
    return {**head, "data": {"provider": "aws"}, "created_at": "2026-06-01T11:59:00Z", **changes}
