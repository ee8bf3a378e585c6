"""The image and the compose file, as far as they can be checked without a container engine."""

import re
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from app.db.core.connections import API_SESSION, WORKER_SESSION
from app.db.core.logins import Cluster, login_for
from app.local.programs import services
from app.server.main import PROCESSES
from app.settings import load_settings
from tests.house.sources import ROOT

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
OURS = ("api", "worker", "inventory", "migrate")


def test_the_script_that_makes_the_owner_is_the_one_the_server_runs() -> None:
    assert any(volume.startswith("./migrations/owner.sql:") for volume in COMPOSE["services"]["postgres"]["volumes"])
    assert (ROOT / "migrations" / "owner.sql").exists()


@pytest.mark.parametrize("service", OURS)
def test_each_service_runs_a_process_that_exists(service: str) -> None:
    assert COMPOSE["services"][service]["command"] == [service]
    assert service in PROCESSES


@pytest.mark.parametrize("service", OURS)
def test_services_run_on_a_read_only_root_without_rights(service: str) -> None:
    settings = COMPOSE["services"][service]
    assert settings["read_only"] is True
    assert settings["cap_drop"] == ["ALL"]


def test_everything_waits_for_the_migration_and_that_for_the_database() -> None:
    services = COMPOSE["services"]
    assert services["migrate"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    for service in ("api", "worker", "inventory"):
        assert services[service]["depends_on"]["migrate"] == {"condition": "service_completed_successfully"}
    assert all("healthcheck" in services[name] for name in ("postgres", "redis", "api"))


def test_a_worker_may_finish_the_call_under_way_before_it_is_killed() -> None:
    settings = load_settings()
    longest = settings.call_timeout + settings.connect_timeout
    for service in ("worker", "inventory"):
        assert int(COMPOSE["services"][service]["stop_grace_period"].removesuffix("s")) >= 2 * longest


def test_two_inventories_run_by_default() -> None:
    assert COMPOSE["services"]["inventory"]["deploy"] == {"replicas": 2}
    programs = services(host="127.0.0.1", port=8000, api=1, workers=1, inventories=2, adapters=())
    assert {program.name: program.processes for program in programs}["inventory"] == 2


PASSWORDS = {
    "postgres": {"POSTGRES_PASSWORD", "OWNER_PASSWORD"},
    "migrate": {"OWNER_PASSWORD", "API_PASSWORD", "WORKER_PASSWORD"},
    "api": {"API_PASSWORD"},
    "worker": {"WORKER_PASSWORD"},
    "inventory": {"WORKER_PASSWORD"},
    "redis": set[str](),
}
LOGINS = {
    "migrate": "gpulease_owner",
    "api": "gpulease_api_login",
    "worker": "gpulease_worker_login",
    "inventory": "gpulease_worker_login",
}


def environment(service: str) -> dict[str, str]:
    found: dict[str, str] = COMPOSE["services"][service].get("environment", {})
    return found


@pytest.mark.parametrize("service", COMPOSE["services"])
def test_each_service_is_given_the_passwords_that_it_needs_and_no_other(service: str) -> None:
    variables = re.findall(r"\$\{(\w+):\?", yaml.safe_dump(COMPOSE["services"][service]))
    assert set(variables) == PASSWORDS[service]


@pytest.mark.parametrize("service", OURS)
def test_each_process_logs_in_as_itself_with_its_password_outside_the_url(service: str) -> None:
    given = environment(service)
    assert urlsplit(given["GPULEASE_DATABASE_URL"]).netloc == f"{LOGINS[service]}@postgres:5432"
    assert given["GPULEASE_DATABASE_PASSWORD"].startswith("${")


def test_the_logins_of_the_compose_file_are_those_that_the_migration_makes() -> None:
    (database,) = {urlsplit(environment(service)["GPULEASE_DATABASE_URL"]).path[1:] for service in OURS}
    cluster = Cluster(owner="gpulease_owner", database=database, roles=frozenset(), may_create=True)
    made = {login_for(cluster, settings, "").name for settings in (API_SESSION, WORKER_SESSION)}
    assert made == {LOGINS[service] for service in ("api", "worker", "inventory")}
    assert {"GPULEASE_API_PASSWORD", "GPULEASE_WORKER_PASSWORD"} <= environment("migrate").keys()


def test_worker_and_inventory_alone_know_the_clouds() -> None:
    for service, settings in COMPOSE["services"].items():
        knows = service in {"worker", "inventory"}
        assert (settings.get("env_file") == "cloud.env") is knows, service
        assert any("gpulease.toml" in volume for volume in settings.get("volumes", [])) is knows, service


def test_no_secret_stands_in_the_compose_file_and_each_that_it_wants_in_the_example() -> None:
    values = {name: value for service in COMPOSE["services"] for name, value in environment(service).items()}
    assert all(re.fullmatch(r"\$\{\w+:\?.*\}", value) for name, value in values.items() if "PASSWORD" in name)
    example = (ROOT / "env.example").read_text(encoding="utf-8")
    assert set(re.findall(r"^(\w+)=$", example, re.MULTILINE)) == set.union(*PASSWORDS.values())


def test_the_api_is_published_on_loopback_alone() -> None:
    assert COMPOSE["services"]["api"]["ports"] == ["127.0.0.1:8000:8000"]


def test_the_image_installs_by_hash_and_runs_as_a_numeric_user() -> None:
    assert "--require-hashes" in DOCKERFILE
    user = re.search(r"^USER (\d+):(\d+)$", DOCKERFILE, re.MULTILINE)
    assert user is not None
    assert int(user[1]) > 0


def test_what_the_image_copies_is_in_the_build_context() -> None:
    allowed = {
        line[1:] for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line[:1] == "!"
    }
    for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE):
        sources = line.split()[:-1]
        assert set(sources) <= allowed
        assert all((ROOT / source).exists() for source in sources)
