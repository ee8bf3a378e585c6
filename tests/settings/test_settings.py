"""A value that is wrong stops the process with one line that names the variable, as docs/settings.md says."""

import pytest

from app.settings import StartupError, load_settings
from app.settings.settings import Settings
from tests.harness.databases import ROOT


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("LOG_LEVEL", "LOUD"),
        ("LOG_LEVEL", ""),
        ("DATABASE_URL", ""),
        ("DATABASE_URL", "gpulease"),
        ("DATABASE_URL", "mysql://gpulease@db/gpulease"),
        ("DATABASE_URL", "postgresql://gpulease@db:port/gpulease"),
        ("BROKER_URL", ""),
        ("BROKER_URL", "redis"),
        ("BROKER_URL", "amqp://redis:6379/0"),
        ("BROKER_URL", "redis://redis:port/0"),
        ("BROKER_URL", "redis://redis:6379/zero"),
        ("DEFAULT_MAX_TTL_SECONDS", "-5"),
        ("DEFAULT_MAX_TTL_SECONDS", "59"),
        ("DEFAULT_MAX_TTL_SECONDS", "31536001"),
        ("DEFAULT_MAX_TOTAL_SECONDS", "-5"),
        ("DEFAULT_MAX_TOTAL_SECONDS", "31536001"),
        ("DEADLINE_GRACE_SECONDS", "99999999999999999999"),
        ("LEASE_RETENTION_DAYS", "34"),
        ("LEASE_RETENTION_DAYS", "1000000000000"),
        ("METRICS_DAYS", "1000000000000"),
        ("TIMING", "settle_seconds=inf"),
        ("TIMING", "call_timeout=1e300"),
        ("TIMING", "key_cache_seconds=nan"),
        ("TIMING", "settle_seconds=60,settle_seconds=90"),
    ],
)
def test_a_wrong_value_stops_the_process_and_names_its_variable(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(f"GPULEASE_{variable}", value)
    with pytest.raises(StartupError, match=f"GPULEASE_{variable}") as refused:
        load_settings()
    assert "\n" not in str(refused.value)


def test_a_new_tenants_term_is_within_its_total_term(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise each new tenant would be refused for fields that its request does not have."""
    monkeypatch.setenv("GPULEASE_DEFAULT_MAX_TOTAL_SECONDS", "3600")
    with pytest.raises(StartupError, match=r"GPULEASE_DEFAULT_MAX_TTL_SECONDS is 86400.*at most.*TOTAL_SECONDS"):
        load_settings()


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://gpulease:p%40ss@db/gpulease",
        "postgresql://gpulease:a/b#c?d@db:5432/gpulease?sslmode=require",
        "postgresql://gpulease@[::1]:5432/gpulease",
        "postgresql:///gpulease?host=/var/run/postgresql",
    ],
)
def test_urls_of_databases_are_taken_as_they_are(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("GPULEASE_DATABASE_URL", url)
    assert load_settings().database_url == url


@pytest.mark.parametrize("url", ["rediss://:p%2Fss@redis", "redis://user:p@ss@[::1]:6379/1?ssl_cert_reqs=none"])
def test_urls_of_redis_are_taken_as_they_are(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("GPULEASE_BROKER_URL", url)
    assert load_settings().broker_url == url


@pytest.mark.parametrize("level", ["DEBUG", "info"])
def test_a_level_may_be_in_lower_case(monkeypatch: pytest.MonkeyPatch, level: str) -> None:
    monkeypatch.setenv("GPULEASE_LOG_LEVEL", level)
    assert load_settings().log_level == level.upper()


@pytest.mark.parametrize("variable", ["DATABASE_URL", "BROKER_URL"])
def test_a_wrong_url_is_not_repeated_for_it_may_have_a_password(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(f"GPULEASE_{variable}", "x://gpulease:a-secret@db:a-secret/0")
    with pytest.raises(StartupError) as refused:
        load_settings()
    assert "a-secret" not in str(refused.value)


def test_the_page_about_secrets_has_each_setting_that_is_one() -> None:
    page = (ROOT / "docs/howto/secrets.md").read_text(encoding="utf-8")
    fields = Settings.model_fields.items()
    secret = {f"GPULEASE_{name.upper()}" for name, field in fields if "SecretStr" in str(field.annotation)}
    assert len(secret) == 4
    assert {name for name in {*secret, "GPULEASE_BROKER_URL"} if f"`{name}`" not in page} == set()
