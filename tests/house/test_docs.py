"""What the pages link to exists, and the commands they show exist."""

import re
from pathlib import Path

import pytest
import yaml

from app.settings import load_accounts
from tests.house.sources import ROOT, tracked_files

PAGES = [path for path in tracked_files() if path.suffix == ".md"]
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")
MAKE = re.compile(r"^(?:\$ )?make ([a-z-]+)", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page: object) -> None:
    path = ROOT / str(page)
    missing = [link for link in LINK.findall(path.read_text(encoding="utf-8")) if not (path.parent / link).exists()]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_make_targets_shown_exist(page: object) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in MAKE.findall((ROOT / str(page)).read_text(encoding="utf-8")):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_the_example_of_an_accounts_file_is_one_the_program_reads() -> None:
    assert load_accounts(ROOT / "gpulease.example.toml").keys() == {"main"}


def test_every_line_of_the_example_may_be_switched_on(tmp_path: Path) -> None:
    text = (ROOT / "gpulease.example.toml").read_text(encoding="utf-8")
    everything = tmp_path / "gpulease.toml"
    everything.write_text(re.sub(r"^# (\w+ = )", r"\1", text, flags=re.MULTILINE))
    assert load_accounts(everything)["main"].endpoint_url is not None


def test_the_hooks_before_a_commit_need_no_other_host() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert [repository["repo"] for repository in config["repos"]] == ["local"]
