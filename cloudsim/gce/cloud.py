"""Google as the control API sees it."""

from __future__ import annotations

from cloudsim.control.clouds import Cloud
from cloudsim.gce.catalog import DEFAULT_PROJECT, QUOTAS
from cloudsim.gce.seed import plant
from cloudsim.gce.table import ACTIONS, EVERY_NAME

GCP = Cloud(operations=EVERY_NAME, actions=ACTIONS, quotas=QUOTAS, plant=plant, default_account=DEFAULT_PROJECT)
