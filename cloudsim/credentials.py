"""Who is calling: the access key id says which account, nothing is verified.

Assumed-role keys carry their account number (`ASIA` + 12 digits), so they outlive a restart.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from cloudsim.ec2.errors import AwsError

DEFAULT_ACCOUNT = "000000000001"
EMPTY_ACCOUNT = "000000000002"
"""Account of access keys beginning with AKIAEMPTY: valid credentials that see nothing of ours."""

_SCOPE = re.compile(r"Credential=([^/,\s]+)/\d{8}/([a-z0-9-]+)/([a-z0-9-]+)/aws4_request")
_ASSUMED = re.compile(r"ASIA(\d{12})[A-Z0-9]{4}")


@dataclass(frozen=True, slots=True)
class Scope:
    """What the Authorization header claims."""

    access_key: str
    region: str
    service: str


def read_scope(header: str | None) -> Scope:
    """Parse a Signature Version 4 header. Raises AwsError AuthFailure."""
    match = _SCOPE.search(header or "")
    if match is None:
        raise AwsError("AuthFailure", "AWS was not able to validate the provided access credentials")
    return Scope(*match.groups())


def _default_accounts() -> dict[str, str]:
    return {"AKIAEMPTY": EMPTY_ACCOUNT}


@dataclass(slots=True)
class Credentials:
    """`accounts` maps prefixes of access key ids to accounts (the longest wins); keys in `bad` are refused."""

    bad: frozenset[str] = frozenset()
    accounts: Mapping[str, str] = field(default_factory=_default_accounts)
    sessions: dict[str, str] = field(default_factory=dict)
    """Assumed-role keys and their ARNs."""

    def account(self, access_key: str) -> str:
        """The account of a key. Raises AwsError AuthFailure for a bad one."""
        if access_key in self.bad:
            raise AwsError("AuthFailure", "AWS was not able to validate the provided access credentials")
        assumed = _ASSUMED.fullmatch(access_key)
        if assumed:
            return assumed.group(1)
        known = [prefix for prefix in self.accounts if access_key.startswith(prefix)]
        return self.accounts[max(known, key=len)] if known else DEFAULT_ACCOUNT

    def arn(self, access_key: str) -> str:
        """Who the key belongs to."""
        account = self.account(access_key)
        return self.sessions.get(access_key, f"arn:aws:iam::{account}:user/cloudsim")
