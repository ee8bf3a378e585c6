"""The Python client finds its connection as the command line does, and verifies what the server signs."""

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from app.cli.endpoint import Choice, find_endpoint
from app.cli.errors import NotConfiguredError
from app.domain.webhooks.formats import WebhookFormat, WebhookMessage, render
from app.domain.webhooks.signature import secret_text, signed_headers

PROFILES = """
default = "prod"
[profiles.prod]
url = "https://prod.example/"
key = "prod-key"
[profiles.lab]
url = "https://lab.example"
key_command = "echo lab-key"
[profiles.bare]
url = "https://bare.example"
"""
ENVIRONMENTS: dict[str, dict[str, str]] = {
    "nothing": {},
    "both": {"GPULEASE_URL": "http://env.example/", "GPULEASE_KEY": " env-key\n"},
    "key alone": {"GPULEASE_KEY": "env-key"},
    "address alone": {"GPULEASE_URL": "https://prod.example"},
    "profile": {"GPULEASE_PROFILE": "lab"},
    "no profile": {"GPULEASE_PROFILE": ""},
    "unknown profile": {"GPULEASE_PROFILE": "moon"},
    "not an address": {"GPULEASE_URL": "prod.example"},
}
ARGUMENTS: list[dict[str, str]] = [
    {},
    {"url": "http://127.0.0.1:1", "key": "k"},
    {"url": "https://lab.example"},
    {"key": "k"},
    {"profile": "lab"},
    {"profile": "bare"},
    {"profile": ""},
    {"profile": "lab", "key": "k"},
]


@pytest.mark.parametrize("environment", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
@pytest.mark.parametrize("with_profiles", [True, False], ids=["profiles", "no profiles"])
def test_the_connection_is_that_of_the_command_line(
    gpulease_client: ModuleType, tmp_path: Path, environment: dict[str, str], with_profiles: bool
) -> None:
    config, home = tmp_path / "config.toml", tmp_path / "project" / ".gpulease"
    home.mkdir(parents=True)
    if with_profiles:
        config.write_text(PROFILES)
        config.chmod(0o600)
    saved = {"api_url": "http://127.0.0.1:8000", "tenant_key": "local", "operator_key": "local-operator"}
    (home / "credentials.json").write_text(json.dumps(saved))
    environ = {**environment, "GPULEASE_CLI_CONFIG": str(config)}
    settings = gpulease_client.settings
    for arguments in ARGUMENTS:
        for operator in (False, True):
            try:
                expected = find_endpoint(Choice(**arguments), operator=operator, environ=environ, directory=home.parent)
            except NotConfiguredError:
                with pytest.raises(gpulease_client.NotConfiguredError):
                    settings.find_endpoint(**arguments, operator=operator, environ=environ, directory=home.parent)
            else:
                found = settings.find_endpoint(**arguments, operator=operator, environ=environ, directory=home.parent)
                assert (found.url, found.key) == (expected.url, expected.key), (arguments, operator)
                assert found.is_loopback == expected.is_loopback
                assert expected.key not in repr(found)


def test_a_file_whose_keys_others_can_read_is_refused(gpulease_client: ModuleType, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(PROFILES)
    config.chmod(0o644)
    environ = {"GPULEASE_CLI_CONFIG": str(config)}
    with pytest.raises(gpulease_client.NotConfiguredError, match="chmod 600"):
        gpulease_client.settings.find_endpoint(environ=environ, directory=tmp_path)


SECRET, OTHER = secret_text(b"1" * 32), secret_text(b"2" * 32)
BODY = json.dumps({"type": "lease.active", "timestamp": "2026-11-23T00:00:00Z", "data": {"id": "event_1", "n": 1}})


@pytest.mark.parametrize("signing", [[SECRET], [OTHER, SECRET]])
@pytest.mark.parametrize("known", [SECRET, [OTHER, SECRET]])
def test_a_message_of_the_server_is_verified(gpulease_client: ModuleType, signing: list[str], known: Any) -> None:
    headers = {name.title(): value for name, value in signed_headers(signing, "event_1", 1000, BODY.encode()).items()}
    message = gpulease_client.webhooks.verify(known, BODY.encode(), headers, now=1290)
    assert (message.id, message.type, message.data["n"]) == ("event_1", "lease.active", 1)


def test_a_message_of_each_signed_format_is_verified(gpulease_client: ModuleType) -> None:
    about = {"id": "event_1", "tenant_id": "tenant_1", "n": 1}
    sent = WebhookMessage(
        id="event_1", type="lease.active", created_at="2026-11-23T00:00:00Z", about=about, sent_at=1000
    )
    requests = [render(form, sent, [SECRET]) for form in WebhookFormat]
    signed = [request for request in requests if request.headers]
    assert len(signed) == len(WebhookFormat) - 1, "all but slack"
    for request in signed:
        message = gpulease_client.webhooks.verify(SECRET, request.body, request.headers, now=1000)
        assert (message.id, message.type, message.timestamp) == ("event_1", "lease.active", "2026-11-23T00:00:00Z")
        assert message.data.items() >= about.items()


@pytest.mark.parametrize(
    "change",
    [
        {"body": BODY.replace("1", "2")},
        {"secret": OTHER},
        {"secret": "whsec_not base64"},
        {"now": 1301},
        {"now": 699},
        {"webhook-id": "event_2"},
        {"webhook-timestamp": "1001"},
        {"webhook-timestamp": "soon"},
        {"webhook-signature": ""},
        {"webhook-signature": "v2,AAAA"},
    ],
    ids=str,
)
def test_any_other_message_is_refused(gpulease_client: ModuleType, change: dict[str, Any]) -> None:
    headers = {**signed_headers([SECRET], "event_1", 1000, BODY.encode()), **change}
    body, secret, now = change.get("body", BODY), change.get("secret", SECRET), change.get("now", 1000)
    with pytest.raises(gpulease_client.InvalidSignatureError):
        gpulease_client.webhooks.verify(secret, body, {k: str(v) for k, v in headers.items()}, now=now)
