"""The image and the compose file, as far as they can be checked without a container engine."""

import re
from typing import Any

import pytest
import yaml

from app.server.main import PROCESSES
from tests.house.sources import ROOT

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
OURS = ("api", "worker", "inventory", "migrate")


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


def test_no_secret_stands_in_the_compose_file() -> None:
    assert all(service["env_file"] == ".env" for name, service in COMPOSE["services"].items() if name in OURS)
    assert re.fullmatch(
        r"\$\{POSTGRES_PASSWORD:\?.*\}", COMPOSE["services"]["postgres"]["environment"]["POSTGRES_PASSWORD"]
    )


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
