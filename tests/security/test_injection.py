"""Text that means something to a terminal, a browser, a spreadsheet, a shell or a header: refused, or carried as mere text."""

from typing import Any

from app.domain.labels import is_value
from tests.api.conftest import Caller
from tests.api.fleet import SSH_KEY, Fleet

WISH: dict[str, Any] = {"gpu": {"model": "A10G"}, "ttl_seconds": 3600}

HOSTILE = (
    "a\r\nSet-Cookie: x=1",
    "a\nb",
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "=cmd|'/C calc'!A0",
    "@SUM(1+1)",
    "$(reboot)",
    "`reboot`; rm -rf /",
    "${jndi:ldap://x}",
    "{{7*7}}",
    "%0d%0aX-Injected: 1",
    "\x1b]0;title\x07",
    "a\u202eb",
    "a\u2028b",
    "../../etc/passwd",
    "' OR '1'='1",
    "x' ; DROP TABLE lease; --",
    "\ufeffname",
)


async def test_a_name_of_anything_is_refused(alice: Caller, operator: Caller, fleet: Fleet) -> None:
    for text in HOSTILE:
        keys = f"/v1/tenants/{alice.tenant_id}/keys"
        for answer in (
            await alice.post("/v1/leases", json={**WISH, "name": text}),
            await operator.post("/v1/tenants", json={"name": text}),
            await alice.post(keys, json={"name": text, "role": "viewer"}),
            await alice.post("/v1/leases", json={**WISH, "labels": {text: "x"}}),
            await alice.post("/v1/leases", json={**WISH, "image": text}),
            await alice.post("/v1/leases", json={**WISH, "regions": [text]}),
            await alice.post("/v1/leases", json={"instance_types": [text], "ttl_seconds": 3600}),
            await alice.post("/v1/leases", json={"gpu": {"model": text}, "ttl_seconds": 3600}),
        ):
            assert answer.status_code == 422, answer.text


async def test_a_label_has_no_control_character_and_comes_back_as_it_was(
    alice: Caller, operator: Caller, fleet: Fleet
) -> None:
    ample = [{"resource": name, "limit": 100} for name in ("gpus", "leases")]
    await operator.put(f"/v1/tenants/{alice.tenant_id}/quotas", json={"limits": ample})
    for text in HOSTILE:
        made = await alice.post("/v1/leases", json={**WISH, "labels": {"note": text}})
        if not is_value(text):
            assert made.status_code == 422
            continue
        assert made.json()["labels"] == {"note": text}
        (shown,) = (await alice.get("/v1/leases", params={"label": f"note:{text}"})).json()["items"]
        assert shown["labels"] == {"note": text}
        for answer in (made, await alice.get("/v1/leases"), await alice.get("/v1/audit")):
            assert answer.headers["content-type"] == "application/json"
            assert answer.headers["x-content-type-options"] == "nosniff"


async def test_a_query_or_a_path_finds_nothing_and_breaks_nothing(alice: Caller, fleet: Fleet) -> None:
    await alice.post("/v1/leases", json=WISH)
    for text in HOSTILE:
        for name in ("name", "provider", "region", "gpu_model"):
            answer = await alice.get("/v1/leases", params={name: text})
            assert (answer.status_code, answer.json()["items"]) == (200, [])
        for name in ("cursor", "ids", "sort", "state", "created_after", "tenant_id", "label"):
            answer = await alice.get("/v1/leases", params={name: text})
            assert answer.status_code in {200, 422}
            assert answer.status_code == 422 or answer.json()["items"] == []
        answer = await alice.get("/v1/offerings", params={"account": text})
        assert answer.json()["items"] == []


WRONG_KEYS = (
    "",
    f"{SSH_KEY}\n{SSH_KEY}",
    f"{SSH_KEY}\rmore",
    f"{SSH_KEY}\u2028{SSH_KEY}",
    f'command="/bin/sh" {SSH_KEY}',
    f"no-pty,{SSH_KEY}",
    f"cert-authority {SSH_KEY}",
    f'from="0.0.0.0/0" {SSH_KEY}',
    SSH_KEY.replace("ssh-ed25519", "ssh-rsa"),
    SSH_KEY.replace("ssh-ed25519", "ssh-dss"),
    "ssh-dss AAAAB3NzaC1kc3MAAACBAP",
    "ssh-ed25519-cert-v01@openssh.com AAAAIHNzaC1lZDI1NTE5LWNlcnQtdjAxQG9wZW5zc2guY29t",
    "ssh-ed25519 AAAA",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl, me@host",
    "ssh-ed25519",
    "-----BEGIN OPENSSH PRIVATE KEY-----",
    f"# {SSH_KEY}",
    f"{SSH_KEY} {'x' * 9000}",
)


async def test_what_is_not_one_public_key_of_an_allowed_type_is_refused(alice: Caller, fleet: Fleet) -> None:
    for key in WRONG_KEYS:
        refused = await alice.post("/v1/leases", json={**WISH, "ssh_public_keys": [SSH_KEY, key]})
        assert refused.status_code == 422
        assert refused.json()["errors"][0]["pointer"] == "#/body/ssh_public_keys/1"


async def test_a_startup_script_is_stored_byte_by_byte_and_bounded(alice: Caller, fleet: Fleet) -> None:
    script = "#!/bin/sh\n--=_gpulease_\nContent-Type: text/cloud-boothook\n\n\u2028 ü 🚀 \x0b"
    made = await alice.post("/v1/leases", json={**WISH, "startup_script": script})
    shown = await alice.get(f"/v1/leases/{made.json()['id']}")
    assert shown.json()["request"]["startup_script"] == script
    assert (
        await alice.post("/v1/leases", json={**WISH, "startup_script": "#!/bin/sh\n" + "ü" * 6_140})
    ).status_code == 422
