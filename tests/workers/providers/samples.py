"""Launch specifications for tests, complete but for what a test is about."""

import hashlib
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from app.domain.ids import LeaseId, TenantId
from app.domain.offerings import Market
from app.domain.tags import OwnerTags
from workers.providers.common.group_keys import private_key
from workers.providers.types import GroupSpec, Image, LaunchSpec

INSTALLATION = "test-installation"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGludmVudGVkLWZvci10ZXN0cy1vbmx5LXh4eHh4eHh4 me@example"
IMAGE = Image(id="ami-0123456789abcdef0", name="driver-ready", root_device="/dev/sda1", disk_gib=75)

SSH_PRIVATE_KEY = private_key(bytes(range(32)))
GROUP = GroupSpec(
    group_id="group_01kb0000000000000000000000",
    placement="cluster",
    interconnect="preferred",
    hosts_url="https://gpulease.example/v1/group-hosts",
    token="a" * 64,
    ssh_private_key=SSH_PRIVATE_KEY,
)


def owner(lease: str = "lease_a", n: int = 1, installation: str = INSTALLATION) -> OwnerTags:
    return OwnerTags(
        installation=installation,
        lease_id=LeaseId(lease),
        n=n,
        tenant_id=TenantId("tenant_a"),
        params_hash="0123456789abcdef",
        deadline_at=datetime(2026, 11, 20, 18, 0, tzinfo=UTC),
    )


def token_of(tags: OwnerTags) -> str:
    return hashlib.sha256(f"{tags.installation}/{tags.lease_id}/{tags.n}".encode()).hexdigest()


def spec(of: OwnerTags | None = None, **changes: Any) -> LaunchSpec:
    tags = of or owner()
    complete = LaunchSpec(
        token=token_of(tags),
        owner=tags,
        name="train-7b",
        region="us-east-1",
        zone="us-east-1a",
        instance_type="g5.xlarge",
        market=Market.ON_DEMAND,
        image=IMAGE,
        disk_gib=200,
        public_ip=True,
        ssh_public_keys=(KEY,),
        startup_script="#!/bin/bash\necho started\n",
        labels={"team": "vision"},
    )
    return replace(complete, **changes)
