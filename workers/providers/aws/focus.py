"""The FOCUS files of AWS: Data Exports, tables `FOCUS 1.0 with AWS columns` and `FOCUS 1.2 with AWS columns`.

A ResourceId is an id or an ARN, depending on the service. Tags appear once they are activated as cost allocation tags.
"""

import re

from app.domain.invoices import FocusDialect

FOCUS = FocusDialect(
    names=frozenset({"aws", "amazon web services", "amazon web services, inc."}),
    vm=re.compile(r"(?:arn:aws[a-z-]*:ec2:[^:]*:[^:]*:instance/)?(i-[0-9a-f]{8,17})"),
    tag_prefixes=("user:", "user_"),
)
