"""The profiles of the local stack: settings (`GPULEASE_*`, see app/settings) that differ from the defaults.

What the user has set in the environment always wins.
"""

from collections.abc import Mapping
from types import MappingProxyType

from app.settings.timing import timing

REALISTIC: Mapping[str, str] = MappingProxyType(
    {
        # a demo is watched by a person: show what happened within seconds, keep the protocol's own times
        **timing(inventory_interval=15, inventory_first_interval=5, watch_interval=2, sweep_interval=0.5),
        "GPULEASE_SAMPLE_SECONDS": "15",
        "GPULEASE_IDLE_GRACE_SECONDS": "60",
    }
)

FAST: Mapping[str, str] = MappingProxyType(
    {
        **timing(
            inventory_interval=2,
            inventory_first_interval=2,
            watch_interval=0.5,
            sweep_interval=0.25,
            offerings_interval=60,
            recount_interval=10,
            sequencer_interval=0.1,
            call_timeout=5,
            connect_timeout=2,
            claim_seconds=15,
            unknown_retry_seconds=10,
            settle_seconds=10,
            settle_gap_seconds=2,
            launch_timeout=30,
            boot_timeout=45,
            release_alarm_seconds=30,
            max_backoff_seconds=5,
            cool_off_capacity_seconds=5,
            cool_off_quota_seconds=10,
            cool_off_unoffered_seconds=60,
            rowless_grace_seconds=20,
            proof_seconds=15,
        ),
        "GPULEASE_PROVIDER_RATE_LIMITS": "false",
        "GPULEASE_WRITE_RATE_LIMIT": "1000000/minute",
        # the API takes one report of a VM in ten seconds
        "GPULEASE_SAMPLE_SECONDS": "12",
        "GPULEASE_IDLE_GRACE_SECONDS": "30",
    }
)

PROFILES: Mapping[str, Mapping[str, str]] = MappingProxyType({"fast": FAST, "realistic": REALISTIC})
