"""The profiles of the local stack: settings (`GPULEASE_*`, see app/settings) that differ from the defaults.

What the user has set in the environment always wins.
"""

from collections.abc import Mapping
from types import MappingProxyType

REALISTIC: Mapping[str, str] = MappingProxyType(
    {
        # a demo is watched by a person: show what happened within seconds, keep the protocol's own times
        "GPULEASE_INVENTORY_INTERVAL": "15",
        "GPULEASE_INVENTORY_FIRST_INTERVAL": "5",
        "GPULEASE_WATCH_INTERVAL": "2",
        "GPULEASE_SWEEP_INTERVAL": "0.5",
        "GPULEASE_SAMPLE_SECONDS": "15",
        "GPULEASE_IDLE_GRACE_SECONDS": "60",
    }
)

FAST: Mapping[str, str] = MappingProxyType(
    {
        "GPULEASE_INVENTORY_INTERVAL": "2",
        "GPULEASE_INVENTORY_FIRST_INTERVAL": "2",
        "GPULEASE_WATCH_INTERVAL": "0.5",
        "GPULEASE_SWEEP_INTERVAL": "0.25",
        "GPULEASE_OFFERINGS_INTERVAL": "60",
        "GPULEASE_RECOUNT_INTERVAL": "10",
        "GPULEASE_SEQUENCER_INTERVAL": "0.1",
        "GPULEASE_CALL_TIMEOUT": "5",
        "GPULEASE_CONNECT_TIMEOUT": "2",
        "GPULEASE_CLAIM_SECONDS": "15",
        "GPULEASE_PROVIDER_RATE_LIMITS": "false",
        "GPULEASE_WRITE_RATE_LIMIT": "1000000/minute",
        "GPULEASE_UNKNOWN_RETRY_SECONDS": "10",
        "GPULEASE_SETTLE_SECONDS": "10",
        "GPULEASE_SETTLE_GAP_SECONDS": "2",
        "GPULEASE_LAUNCH_TIMEOUT": "30",
        "GPULEASE_BOOT_TIMEOUT": "45",
        "GPULEASE_RELEASE_ALARM_SECONDS": "30",
        "GPULEASE_MAX_BACKOFF_SECONDS": "5",
        "GPULEASE_COOL_OFF_CAPACITY_SECONDS": "5",
        "GPULEASE_COOL_OFF_QUOTA_SECONDS": "10",
        "GPULEASE_COOL_OFF_UNOFFERED_SECONDS": "60",
        "GPULEASE_ROWLESS_GRACE_SECONDS": "20",
        "GPULEASE_PROOF_SECONDS": "15",
        # the API takes one report of a VM in ten seconds
        "GPULEASE_SAMPLE_SECONDS": "12",
        "GPULEASE_IDLE_GRACE_SECONDS": "30",
    }
)

PROFILES: Mapping[str, Mapping[str, str]] = MappingProxyType({"fast": FAST, "realistic": REALISTIC})
