"""What an operator has made beforehand: service accounts, encryption keys, and the host project of a shared VPC."""

from __future__ import annotations

import re

HOST_PROJECT = "sim-host"
SERVICE_ACCOUNTS = frozenset({"gpulease-node@sim-project.iam.gserviceaccount.com"})
DISK_TYPES = frozenset({"pd-standard", "pd-balanced", "pd-ssd", "hyperdisk-balanced", "hyperdisk-ml"})
_KEY = re.compile(r"projects/[^/]+/locations/([a-z0-9-]+)/keyRings/gpulease/cryptoKeys/disks")
_NETWORKS = frozenset({"default", "vpc"})
_SUBNETWORKS = frozenset({"gpus"})


def is_key(name: str, region: str) -> bool:
    """Whether a key exists and may encrypt disks of a region. Each region has one key `disks`."""
    match = _KEY.fullmatch(name)
    return match is not None and match[1] == region


def is_network(link: str) -> bool:
    """Whether a network or subnetwork in the host project exists. Every other project has all networks."""
    path = link.partition("projects/")[2].split("/")
    if path[0] != HOST_PROJECT:
        return True
    return path[-1] in (_SUBNETWORKS if "subnetworks" in path else _NETWORKS)
