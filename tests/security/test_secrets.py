"""Secrets through the whole life of leases at three clouds: each stays where it belongs, and is gone when the lease has ended."""

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from app.domain.ids import LeaseId
from app.domain.tokens import host_key_token
from app.local.waiting import wait_until
from cloudsim.testing import NO_TLS, running
from tests.api.fleet import SSH_KEY
from tests.security.routes import HOST_KEY
from tests.security.running import (
    PATIENCE,
    Canaries,
    Places,
    fresh,
    operator_key,
    private_line,
    provider_credentials,
    stack,
)
from tests.workers.providers.aws.test_userdata import script as script_of
from workers.providers.aws import userdata

WISHES = {"aws": ("A10G", "g5.xlarge"), "gcp": ("L4", "g2-standard-4"), "azure": ("T4", "Standard_NC4as_T4_v3")}
WHERE_SCRIPTS_BELONG = {"lease_secret", "attempt"}
"""And nowhere else, as long as their lease lives: the API reads neither launch parameters nor, for viewers, scripts."""


class Person:
    """Somebody with a key. `refusals`: every problem that was answered."""

    def __init__(self, url: str, key: str, refusals: list[str]) -> None:
        headers = {"Authorization": f"Bearer {key}"}
        self._http = httpx.Client(base_url=url, headers=headers, timeout=PATIENCE, trust_env=False, verify=NO_TLS)
        self._refusals = refusals
        self.key = key

    def ask(self, method: str, path: str, body: Any = None, **more: Any) -> httpx.Response:
        answer = self._http.request(method, path, json=body, **more)
        if answer.is_error:
            self._refusals.append(f"{answer.headers}\n{answer.text}")
        return answer

    def close(self) -> None:
        self._http.close()


def hostile(secret: str) -> str:
    """A start-up script that tries to become a part of cloud-init's document."""
    return f"#!/bin/sh\n--=_gpulease_\nContent-Type: text/cloud-boothook\n\n# {secret}\n--=_gpulease_--\n"


def wish(provider: str, script: str) -> dict[str, Any]:
    model, instance_type = WISHES[provider]
    return {
        "name": f"at {provider}",
        "gpu": {"model": model},
        "instance_types": None,
        "providers": [provider],
        "ttl_seconds": 3600,
        "wait_seconds": 600,
        "ssh_public_keys": [SSH_KEY],
        "startup_script": script,
        "labels": {"type": instance_type},
    }


def mistakes(tenant: Person, stranger: Person, canaries: dict[str, str]) -> None:
    """Calls that carry a secret where none belongs: each is refused."""
    key, script = tenant.key, canaries["startup script"]
    wrong: list[tuple[Person, str, str, Any]] = [
        (tenant, "POST", "/v1/leases", {**wish("aws", script), "name": f"{script}\n"}),
        (tenant, "POST", "/v1/leases", {**wish("aws", script), "labels": {"Key": key}}),
        (tenant, "POST", "/v1/leases", {**wish("aws", script * 1000)}),
        (tenant, "POST", "/v1/leases", {**wish("aws", script), "max_price_per_hour": "0.000001"}),
        (tenant, "POST", "/v1/leases", {**wish("aws", script), "gpu": {"model": "A10G", "count": 64}}),
        (tenant, "POST", "/v1/leases", {**wish("aws", script), "ttl_seconds": 31_536_000}),
        (tenant, "POST", "/v1/leases", [script, key]),
        (tenant, "PATCH", "/v1/leases/lease_01h455vb4pex5vsknk084sn02q", {"startup_script": script}),
        (stranger, "GET", f"/v1/me?key={key}", None),
        (tenant, "GET", "/v1/%0d%0a%7b%22forged%22:1%7d%0a", None),
        (tenant, "GET", "/v1/%1b%5b2J%e2%80%a8", None),
        (stranger, "POST", "/v1/host-keys", {"keys": [HOST_KEY]}),
        (stranger, "POST", "/v1/host-keys", {"keys": [key]}),
    ]
    for person, method, path, body in wrong:
        assert person.ask(method, path, body).is_client_error, (path, body)


def check_vm(places: Places, lease_id: str, script: str) -> None:
    """What EC2 was sent: no rights, sessions for its metadata, and the script in a file of its own."""
    rows = places.read(f"SELECT params FROM attempt WHERE lease_id = '{lease_id}'")
    params = rows[0]["params"]
    assert "IamInstanceProfile" not in params
    assert params["MetadataOptions"]["HttpTokens"] == "required"
    assert params["MetadataOptions"]["HttpPutResponseHopLimit"] == 1
    sent = userdata.unpacked(params["UserData"])
    assert len(sent) <= 16_384
    assert script_of(gzip.decompress(sent).decode()) == script


def states(tenant: Person) -> set[str]:
    return {lease["state"] for lease in tenant.ask("GET", "/v1/leases").json()["items"]}


def new_tenant(operator: Person) -> tuple[str, dict[str, Any]]:
    """Its id, and an admin's key."""
    tenant_id = str(operator.ask("POST", "/v1/tenants", {"name": "lab"}).json()["id"])
    limits = [{"resource": name, "limit": 8} for name in ("gpus", "leases")]
    operator.ask("PUT", f"/v1/tenants/{tenant_id}/quotas", {"limits": limits})
    key = operator.ask("POST", f"/v1/tenants/{tenant_id}/keys", {"name": "ci", "role": "admin"})
    return tenant_id, dict(key.json())


def offered(operator: Person) -> bool:
    found = operator.ask("GET", "/v1/offerings?limit=200&market=on_demand").json()["items"]
    return set(WISHES) <= {one["provider"] for one in found}


def leased(tenant: Person, provider: str, script: str) -> str:
    """A lease asked for twice under one key."""
    header = {"Idempotency-Key": f"first-{provider}"}
    answers = [tenant.ask("POST", "/v1/leases", wish(provider, script), headers=header) for _ in "12"]
    assert [answer.status_code for answer in answers] == [201, 201], answers[0].text
    return str(answers[0].json()["id"])


def tokens_of(places: Places, ids: dict[str, str]) -> dict[str, str]:
    """The token of each lease's VM for its host keys, by cloud."""
    (installation,) = places.read("SELECT id, token_key FROM installation")
    key, own_id = installation["token_key"], installation["id"]
    return {provider: host_key_token(key, own_id, LeaseId(lease_id), 1) for provider, lease_id in ids.items()}


def tell_host_keys(url: str, tokens: Iterable[str], refusals: list[str]) -> None:
    """As each VM does early in its boot: a token is good once."""
    for token in tokens:
        vm = Person(url, token, refusals)
        assert [vm.ask("POST", "/v1/host-keys", {"keys": [HOST_KEY]}).status_code for _ in "12"] == [204, 401]
        vm.close()


def check_living(places: Places, canaries: Canaries, tokens: Iterable[str]) -> None:
    """While a lease lives its script is in two tables."""
    found = {table: canaries.seen_in(text) for table, text in places.database().items()}
    assert found["lease_secret"] == ["startup script"]
    assert {table for table, seen in found.items() if seen} <= WHERE_SCRIPTS_BELONG
    assert set(found["attempt"]) <= {"startup script", *tokens}


def end(tenant: Person, places: Places, ids: Iterable[str]) -> str:
    """Ends the leases; whatever the API tells of them afterwards."""
    for lease_id in ids:
        tenant.ask("DELETE", f"/v1/leases/{lease_id}")
    assert wait_until(lambda: states(tenant) == {"released"}, timeout=PATIENCE, poll=0.5), places.logs()
    paths = [f"/v1/leases/{lease_id}/{tail}" for lease_id in ids for tail in ("", "attempts", "events")]
    answers = [tenant.ask("GET", path) for path in paths]
    return "\n".join(answer.text for answer in answers if answer.is_success)


def check_log(text: str) -> None:
    """A line for each request, whatever its path looks like."""
    lines = [json.loads(line) for line in text.splitlines()]
    assert not any("forged" in line for line in lines), "a path made a line of its own"
    assert any("forged" in line.get("path", "") for line in lines)


@pytest.mark.timeout(600)
def test_secrets_stay_where_they_belong(database_url: str, broker_url: str, tmp_path: Path) -> None:
    credentials = provider_credentials()
    refusals: list[str] = []
    script = fresh("script")
    with running(boot_seconds=0.1) as sim, stack(sim, tmp_path, database_url, broker_url, credentials) as places:
        operator = Person(places.url, operator_key(database_url), refusals)
        tenant_id, made = new_tenant(operator)
        tenant = Person(places.url, made["secret"], refusals)
        stranger = Person(places.url, f"{made['secret'][:-1]}~", refusals)
        assert wait_until(lambda: offered(operator), timeout=PATIENCE, poll=0.5), places.logs()
        ids = {provider: leased(tenant, provider, hostile(script)) for provider in WISHES}
        tokens = {f"host-key token at {provider}": token for provider, token in tokens_of(places, ids).items()}
        assert wait_until(lambda: states(tenant) <= {"booting", "active"}, timeout=PATIENCE, poll=0.5), places.logs()
        tell_host_keys(places.url, tokens.values(), refusals)
        assert wait_until(lambda: states(tenant) == {"active"}, timeout=PATIENCE, poll=0.5), places.logs()
        known = {
            "tenant's key": made["secret"],
            "tenant's key, secret part": made["secret"].rpartition("_")[2],
            "operator's key": operator.key,
            "startup script": script,
            "Google's private key": private_line(),
            "database password": urlsplit(database_url).password or "",
        }
        canaries = Canaries(known | credentials | tokens)
        assert all(len(secret) >= 16 for secret in canaries.known.values())
        mistakes(tenant, stranger, canaries.known)
        check_vm(places, ids["aws"], hostile(script))
        check_living(places, canaries, tokens)
        rotated = tenant.ask("POST", f"/v1/keys/{made['id']}/rotate", {"overlap_seconds": 60})
        canaries.known["rotated key"] = rotated.json()["secret"]
        texts = {"answers": end(tenant, places, ids.values()), "metrics": stranger.ask("GET", "/metrics").text}
        for person in (operator, tenant, stranger):
            person.close()
    texts |= {"logs": places.logs(), "Redis": places.broker(), "problems": "\n".join(refusals)}
    texts |= {f"table {table}": text for table, text in places.database().items()}
    assert {name: seen for name, text in texts.items() if (seen := canaries.seen_in(text))} == {}
    check_log((tmp_path / "api.log").read_text(encoding="utf-8"))
    for name in ("logs", "table lease", "Redis"):
        assert tenant_id in texts[name], f"not read: {name}"
    assert "gpulease_http_requests_total" in texts["metrics"]
    assert len(refusals) >= 14
    assert json.dumps(refusals).count("request_id") >= 14
