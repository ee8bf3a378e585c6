"""Azure as the control API sees it."""

from __future__ import annotations

from cloudsim.arm.catalog import QUOTA_NAMES, SUBSCRIPTION
from cloudsim.arm.operations import ACTIONS, EVERY_NAME
from cloudsim.arm.seed import plant
from cloudsim.control.clouds import Cloud

AZURE = Cloud(
    operations=EVERY_NAME,
    actions=ACTIONS,
    quotas=frozenset(QUOTA_NAMES),
    plant=plant,
    default_account=SUBSCRIPTION,
)
