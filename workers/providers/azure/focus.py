"""The FOCUS files of Azure: Cost Management exports of the type `Cost and usage details (FOCUS)`.

A ResourceId is a resource path, whose case varies. The billing currency may be any, with costs in USD beside.
Source: https://learn.microsoft.com/azure/cost-management-billing/dataset-schema/cost-usage-details-focus
"""

import re

from app.domain.invoices import FocusDialect

FOCUS = FocusDialect(
    names=frozenset({"microsoft", "azure", "microsoft azure"}),
    vm=re.compile(
        r"/subscriptions/[^/]+/resourcegroups/[^/]+/providers/microsoft\.compute/virtualmachines/([^/]+)", re.IGNORECASE
    ),
    usd_cost="x_EffectiveCostInUsd",
)
