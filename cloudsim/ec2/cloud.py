"""AWS as the control API sees it."""

from __future__ import annotations

from cloudsim.control.clouds import Cloud
from cloudsim.credentials import DEFAULT_ACCOUNT
from cloudsim.ec2.catalog import QUOTA_NAMES
from cloudsim.ec2.operations import ACTIONS, EVERY_NAME
from cloudsim.ec2.seed import plant

AWS = Cloud(
    operations=EVERY_NAME,
    actions=ACTIONS,
    quotas=frozenset(QUOTA_NAMES),
    plant=plant,
    default_account=DEFAULT_ACCOUNT,
)
