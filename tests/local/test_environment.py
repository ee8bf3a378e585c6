"""What the processes of a stack get to see."""

import json
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from app.local import stack
from app.local.environment import cloud_credentials, process_environment, write_accounts
from app.local.home import Home
from app.local.memory import Memory
from app.local.options import parse
from app.local.profiles import PROFILES
from app.local.programs import cloud, services
from app.local.progress import Progress
from app.local.supervision import Supervisor
from app.settings import Settings, StartupError, load_accounts
from app.settings.settings import describe
from app.settings.timing import TIMING, parse_times, timing
from workers.providers.gcp.settings import GcpAccount


def environment(home: Home, *argv: str, **outside: str) -> dict[str, str]:
    return process_environment(
        home, parse(argv, outside), database_url="postgresql://db", broker_url="redis://broker", outside=outside
    )


def credentials(*argv: str, **outside: str) -> dict[str, str]:
    return cloud_credentials(parse(argv, outside), outside=outside)


OWN = {
    "AWS_ACCESS_KEY_ID": "AKIAREAL",
    "AWS_PROFILE": "work",
    "GOOGLE_APPLICATION_CREDENTIALS": "/elsewhere/key.json",
    "CLOUDSDK_CORE_PROJECT": "work",
    "AZURE_CLIENT_SECRET": "real",
    "AZURE_CLIENT_ID": "me",
}


def test_the_users_cloud_credentials_never_reach_the_simulated_cloud(tmp_path: Path) -> None:
    assert not OWN.keys() & environment(Home(tmp_path), **OWN).keys()
    seen = credentials(**OWN)
    assert not set(OWN.values()) & set(seen.values())
    assert seen["AWS_EC2_METADATA_DISABLED"] == "true"


def test_webhooks_to_this_machine_work_by_default_where_only_this_machine_reaches_the_api(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert environment(home)["GPULEASE_WEBHOOK_LOCAL"] == "true"
    assert environment(home, GPULEASE_WEBHOOK_LOCAL="false")["GPULEASE_WEBHOOK_LOCAL"] == "false"
    assert "GPULEASE_WEBHOOK_LOCAL" not in environment(home, GPULEASE_HOST="0.0.0.0")


def test_accounts_of_ones_own_have_the_users_credentials_in_the_programs_that_call_clouds_alone(tmp_path: Path) -> None:
    outside = {**OWN, "GPULEASE_CONFIG": "mine.toml", "LANG": "C.UTF-8"}
    seen = environment(Home(tmp_path), **outside)
    assert (seen["GPULEASE_CONFIG"], seen["LANG"]) == ("mine.toml", "C.UTF-8")
    assert not OWN.keys() & seen.keys()
    assert credentials(**outside) == OWN


def test_workers_and_inventories_alone_call_clouds(tmp_path: Path) -> None:
    programs = services(host="127.0.0.1", port=1, api=2, workers=1, inventories=1, adapters=[])
    programs.append(cloud(Home(tmp_path), 2, 3, "fast", 0))
    assert {program.name for program in programs if program.calls_clouds} == {"worker", "inventory"}


def test_the_stack_gives_the_credentials_to_no_other_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Mapping[str, str]] = {}

    def launch(*arguments: Any) -> Supervisor:
        given.update(arguments[-1])
        raise StartupError("far enough")

    monkeypatch.setattr(stack, "launch", launch)
    plan = stack.make_plan(Home(tmp_path), parse([], {}), Memory(1, 2, 3, "p", "r"), OWN)
    with pytest.raises(StartupError, match="far enough"):
        stack.Stack(plan, Progress(StringIO())).bring_up()
    assert given == dict.fromkeys(("worker", "inventory"), plan.credentials)
    assert plan.credentials


def test_what_the_user_sets_wins_over_the_profile(tmp_path: Path) -> None:
    name = "GPULEASE_AGENT"
    assert name not in environment(Home(tmp_path), "--profile", "fast")
    assert environment(Home(tmp_path), "--profile", "fast", **{name: "off"})[name] == "off"


def test_a_time_that_the_user_sets_wins_over_that_of_the_profile_and_the_others_stay(tmp_path: Path) -> None:
    times = parse_times(PROFILES["fast"][TIMING])
    assert environment(Home(tmp_path), "--profile", "fast")[TIMING] == PROFILES["fast"][TIMING]
    changed = environment(Home(tmp_path), "--profile", "fast", **timing(inventory_interval=7))
    assert parse_times(changed[TIMING]) == {**times, "inventory_interval": "7"}


def test_the_accounts_file_is_one_the_program_reads(tmp_path: Path) -> None:
    home = Home(tmp_path)
    write_accounts(home, parse([], {"GPULEASE_CLOUDSIM_PORT": "9010"}), 8222)
    accounts = load_accounts(home.accounts_file)
    assert {account.endpoint_url for account in accounts.values()} == {"http://127.0.0.1:9010"}
    assert {name: account.regions for name, account in accounts.items()} == {
        "sim": ("us-east-1", "eu-west-1"),
        "sim-gcp": ("us-central1", "europe-west4"),
        "sim-azure": ("eastus", "westeurope"),
    }


def test_the_simulated_projects_key_is_private_and_gets_its_tokens_from_the_simulated_cloud(tmp_path: Path) -> None:
    home = Home(tmp_path)
    write_accounts(home, parse([], {"GPULEASE_CLOUDSIM_PORT": "9010"}), 8222)
    account = load_accounts(home.accounts_file)["sim-gcp"]
    assert isinstance(account, GcpAccount)
    assert account.credentials_file == str(home.gcp_key_file)
    assert home.gcp_key_file.stat().st_mode & 0o077 == 0
    assert json.loads(home.gcp_key_file.read_text())["token_uri"] == "http://127.0.0.1:9010/gce/token"


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_sets_nothing_that_the_program_does_not_know(profile: str) -> None:
    assert PROFILES[profile].keys() <= {TIMING, *describe()}


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_is_valid(profile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in PROFILES[profile].items():
        monkeypatch.setenv(name, value)
    settings = Settings()
    assert settings.claim_seconds > 2 * settings.call_timeout


def test_only_the_clouds_that_are_wanted_have_an_account(tmp_path: Path) -> None:
    home = Home(tmp_path)
    write_accounts(home, parse(["--clouds", "azure,aws"], {}), 8222)
    assert list(load_accounts(home.accounts_file)) == ["sim-azure", "sim"]


def test_a_password_for_another_database_does_not_reach_the_processes(tmp_path: Path) -> None:
    """The URL that they get has its own password in it."""
    seen = environment(Home(tmp_path), GPULEASE_DATABASE_PASSWORD="x", GPULEASE_DATABASE_PASSWORD_FILE="/x")
    assert not [name for name in seen if name.startswith("GPULEASE_DATABASE_PASSWORD")]
