import json
from pathlib import Path
from typing import Any

import pytest

from app.cli.endpoint import Choice, Endpoint, find_endpoint
from app.cli.errors import NotConfiguredError

SAVED = {"api_url": "http://127.0.0.1:8000", "tenant_key": "gpl_t", "operator_key": "gpl_o"}


def _save(folder: Path, document: Any) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "credentials.json").write_text(json.dumps(document))


def _find(directory: Path, *, operator: bool = False, environ: dict[str, str] | None = None, **given: str) -> Endpoint:
    return find_endpoint(Choice(**given), operator=operator, environ=environ or {}, directory=directory)


def test_credentials_are_found_upward_from_the_current_directory(tmp_path: Path) -> None:
    _save(tmp_path / ".gpulease", SAVED)
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert _find(below) == Endpoint("http://127.0.0.1:8000", "gpl_t")


def test_the_home_variable_names_the_only_place(tmp_path: Path) -> None:
    _save(tmp_path / ".gpulease", SAVED)
    _save(tmp_path / "other", {**SAVED, "tenant_key": "gpl_other"})
    assert _find(tmp_path, environ={"GPULEASE_HOME": str(tmp_path / "other")}).key == "gpl_other"
    with pytest.raises(NotConfiguredError):
        _find(tmp_path, environ={"GPULEASE_HOME": str(tmp_path / "empty")})


def test_operator_calls_use_the_operator_key(tmp_path: Path) -> None:
    _save(tmp_path / ".gpulease", SAVED)
    assert _find(tmp_path, operator=True).key == "gpl_o"


def test_options_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    _save(tmp_path / ".gpulease", SAVED)
    environ = {"GPULEASE_URL": "http://env:1", "GPULEASE_KEY": "gpl_env"}
    assert _find(tmp_path, environ=environ) == Endpoint("http://env:1", "gpl_env")
    assert _find(tmp_path, environ=environ, url="http://opt:2", key="gpl_opt") == Endpoint("http://opt:2", "gpl_opt")
    assert _find(tmp_path, environ={"GPULEASE_KEY": "gpl_env"}) == Endpoint("http://127.0.0.1:8000", "gpl_env")


def test_a_saved_key_is_never_shown_to_another_host(tmp_path: Path) -> None:
    _save(tmp_path / ".gpulease", SAVED)
    with pytest.raises(NotConfiguredError, match="GPULEASE_KEY"):
        _find(tmp_path, url="http://elsewhere:8000")
    assert _find(tmp_path, url="http://127.0.0.1:8000/").key == "gpl_t"


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://host", "http://", "/v1"])
def test_an_address_that_is_none_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(NotConfiguredError, match="not an API address"):
        _find(tmp_path, url=url, key="gpl_x")


def test_a_mangled_key_is_refused_without_repeating_it(tmp_path: Path) -> None:
    with pytest.raises(NotConfiguredError) as refused:
        _find(tmp_path, url="http://h", key="gpl_se\ncret")
    assert "secret" not in str(refused.value)
    assert "cret" not in str(refused.value)


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    _save(tmp_path / ".gpulease", SAVED)
    (tmp_path / ".gpulease" / "credentials.json").write_text("{")
    with pytest.raises(NotConfiguredError, match=r"credentials\.json"):
        _find(tmp_path)


def test_without_credentials_the_message_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NotConfiguredError, match=r"--url.*GPULEASE_URL.*gpulease up"):
        _find(tmp_path)


def test_loopback_addresses_are_told_apart() -> None:
    assert Endpoint("http://127.0.0.1:8000", "k").is_loopback
    assert Endpoint("http://[::1]:8000", "k").is_loopback
    assert Endpoint("http://localhost", "k").is_loopback
    assert not Endpoint("https://gpus.example.com", "k").is_loopback
