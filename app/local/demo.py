"""The demo tenant, made through the HTTP API like any other, and the credentials file."""

import json
import ssl
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx

from app.local.private_files import write_private

TENANT_NAME = "demo"
LIMITS = {"gpus": 64, "leases": 200, "spend_per_hour": "2000.00"}
PAGE = 200
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Trusts nobody: the stack speaks plain HTTP to itself, and each reading of the system's certificates takes 35 ms."""
_LONGEST_CAUSE = 200
_FAILING = {"failing": "failing (credentials)", "failing_catalogue": "failing (catalogue)", "disabled": "disabled"}
"""States of an account at which no lease can start, in words."""


@dataclass(frozen=True)
class Credentials:
    """The content of credentials.json."""

    api_url: str
    cloudsim_url: str | None
    "None without a simulated cloud."
    database_url: str = field(repr=False)
    broker_url: str = field(repr=False)
    operator_key: str = field(repr=False)
    tenant_id: str
    tenant_key: str = field(repr=False)

    def write(self, path: Path) -> None:
        """Mode 0600."""
        write_private(path, json.dumps(asdict(self), indent=2) + "\n")


def known_keys(path: Path) -> dict[str, str]:
    """What an earlier run wrote; empty when there is nothing usable. Whether the keys still count, the API says."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {name: value for name, value in content.items() if isinstance(value, str)}


@dataclass(frozen=True)
class DemoTenant:
    """Who rents in the demo."""

    tenant_id: str
    key: str = field(repr=False)


def ensure_tenant(api_url: str, operator_key: str, known_key: str | None) -> DemoTenant:
    """The demo tenant with its quotas and an admin key. Safe to repeat; a key that still works is kept."""
    with _client(api_url, headers=_bearer(operator_key)) as api:
        tenant_id = _find_tenant(api)
        if tenant_id is None:
            tenant_id = _post(api, "/v1/tenants", {"name": TENANT_NAME})["id"]
            limits = [{"resource": resource, "limit": limit} for resource, limit in LIMITS.items()]
            api.put(f"/v1/tenants/{tenant_id}/quotas", json={"limits": limits}).raise_for_status()
        if known_key is None or not _opens(api, known_key, tenant_id):
            created = _post(api, f"/v1/tenants/{tenant_id}/keys", {"name": "local", "role": "admin"})
            return DemoTenant(tenant_id, created["secret"])
        return DemoTenant(tenant_id, known_key)


@dataclass(frozen=True)
class AccountReport:
    """What the API reports of a configured account. `cause`: why it cannot be used, one line."""

    name: str
    identity: str | None
    state: str
    cause: str | None
    has_offerings: bool

    @property
    def is_failing(self) -> bool:
        """Whether its credentials or its offerings could not be read."""
        return self.state in _FAILING

    @property
    def label(self) -> str:
        """`123456789012 (research)`."""
        return f"{self.identity} ({self.name})" if self.identity else self.name

    def trouble(self) -> str:
        """One line for a failing account."""
        return f"account {self.name} is {_FAILING[self.state]}" + (f": {self.cause}" if self.cause else "")


def account_reports(credentials: Credentials) -> list[AccountReport]:
    """The configured accounts, by name. Empty when the API did not answer as it should."""
    with _client(credentials.api_url) as api:
        accounts = api.get("/v1/ops/accounts", headers=_bearer(credentials.operator_key))
        if not accounts.is_success:
            return []
        return [_report(api, credentials, item) for item in accounts.json()["items"] if not item["draining"]]


def _report(api: httpx.Client, credentials: Credentials, account: dict[str, Any]) -> AccountReport:
    params = {"account": account["name"], "limit": 1}
    offerings = api.get("/v1/offerings", params=params, headers=_bearer(credentials.tenant_key))
    return AccountReport(
        name=account["name"],
        identity=account["identity"],
        state=account["state"],
        cause=_cause(account),
        has_offerings=offerings.is_success and bool(offerings.json()["items"]),
    )


def _cause(account: dict[str, Any]) -> str | None:
    error = account["last_error"]
    if error:
        return _line(error.get("message") or error.get("code") or error.get("class"))
    unread = (region for region in account["regions"] if region["catalogue_error"])
    return next((_line(f"{region['region']}: {region['catalogue_error']}") for region in unread), None)


def _line(text: str) -> str:
    return " ".join(text.split())[:_LONGEST_CAUSE]


def _client(api_url: str, headers: Mapping[str, str] | None = None) -> httpx.Client:
    return httpx.Client(base_url=api_url, headers=headers, timeout=30, trust_env=False, verify=NO_TLS)


def _bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def _find_tenant(api: httpx.Client) -> str | None:
    cursor: str | None = None
    while True:
        page = api.get("/v1/tenants", params={"limit": PAGE} | ({"cursor": cursor} if cursor else {}))
        page.raise_for_status()
        for tenant in page.json()["items"]:
            if tenant["name"] == TENANT_NAME:
                return str(tenant["id"])
        cursor = page.json()["next_cursor"]
        if cursor is None:
            return None


def _opens(api: httpx.Client, key: str, tenant_id: str) -> bool:
    me = api.get("/v1/me", headers={"Authorization": f"Bearer {key}"})
    return me.status_code == httpx.codes.OK and tenant_id in me.text


def _post(api: httpx.Client, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = api.post(path, json=body)
    answer.raise_for_status()
    created: dict[str, Any] = answer.json()
    return created
