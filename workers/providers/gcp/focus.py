"""The FOCUS files of Google Cloud: an export of its FOCUS view over the detailed usage cost data in BigQuery.

A ResourceId is `resource.global_name`, which holds a VM's number, or its name. Tags are a list of keys and values that
holds labels, system labels, project labels and tags.
"""

import re

from app.domain.invoices import FocusDialect

FOCUS = FocusDialect(
    names=frozenset({"google cloud", "google cloud platform", "google"}),
    vm=re.compile(r"(?://compute\.googleapis\.com/)?projects/[^/]+/zones/[^/]+/instances/([^/]+)"),
)
