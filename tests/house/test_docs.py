"""What the pages link to exists, and the commands they show exist."""

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer._click.exceptions import UsageError
from typer.core import TyperGroup

from app.cli.main import app
from app.server.main import _parse
from app.settings import load_accounts
from tests.house.sources import ROOT, tracked_files
from workers.deadman import _options

PAGES = [path for path in tracked_files() if path.suffix == ".md"]
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")
FENCED = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
SHELL = {"", "sh", "ini"}
IN_LINE = re.compile(r"`(gpulease[^`\n]* -[^`\n]*)`")
COMMAND = re.compile(r"(?:^|[\s/])(gpulease(?:-server)? [a-z-].*)")
CODE = re.compile(r"`((?:app|workers|cloudsim|migrations|tests|dashboard|tools|bench)/[\w./-]+\.\w+)(?:::(\w+))?`")
EXPLAINING = [
    page for page in PAGES if page.parent.name in {"architecture", "decisions"} or page.name == "ARCHITECTURE.md"
]
MAKE = re.compile(r"^(?:\$ )?make ([a-z-]+)", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page: object) -> None:
    path = ROOT / str(page)
    missing = [link for link in LINK.findall(path.read_text(encoding="utf-8")) if not (path.parent / link).exists()]
    assert not missing


@pytest.mark.parametrize("page", EXPLAINING, ids=lambda path: str(path.relative_to(ROOT)))
def test_code_and_tests_that_explain_a_decision_exist(page: Path) -> None:
    for name, test in CODE.findall((ROOT / page).read_text(encoding="utf-8")):
        file = ROOT / name
        assert file.exists(), name
        assert not test or f"def {test}(" in file.read_text(encoding="utf-8"), test


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_make_targets_shown_exist(page: object) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in MAKE.findall((ROOT / str(page)).read_text(encoding="utf-8")):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def commands_shown(page: str) -> Iterator[list[str]]:
    """Commands of ours in blocks of code, and those within the text that have options."""
    blocks = (
        line
        for language, block in FENCED.findall(page)
        if language in SHELL
        for line in block.replace("\\\n", " ").splitlines()
    )
    for text in [*(found[1] for line in blocks if (found := COMMAND.search(line))), *IN_LINE.findall(page)]:
        words = shlex.split(text, comments=True)
        ends = [n for n, word in enumerate(words) if word in {"|", ">", "&&", ";"}]
        yield words[: min(ends, default=None)]


def parse(program: str, *arguments: str) -> None:
    """As the program itself would, without doing anything. Raises SystemExit or the command line's errors."""
    if program == "gpulease-server":
        process, rest = _parse(arguments)
        if process == "deadman":
            _options(rest)
    elif arguments[0] == "deadman":
        _options(arguments[1:])
    elif not arguments[0].endswith("-completion"):  # parsing that would change the shell of whoever runs the tests
        _parse_client(client(), list(arguments))


@cache
def client() -> Any:
    """The command line with all its commands. Each is built when the first page shows it."""
    return typer.main.get_command(app)


def _parse_client(command: Any, arguments: list[str]) -> None:
    context = command.make_context(command.name, arguments)
    if isinstance(command, TyperGroup):
        _, chosen, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        _parse_client(chosen, rest)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_shown_are_complete(page: object) -> None:
    for program, *arguments in commands_shown((ROOT / str(page)).read_text(encoding="utf-8")):
        parse(program, *arguments)


@pytest.mark.parametrize(
    "wrong",
    [
        "`gpulease deadman --every 60`",
        "`gpulease-server worker --threads 4`",
        "```sh\ngpulease quota sett vision gpus=1\n```",
        "```sh\ngpulease lease create --gpus 3\n```",
        "```ini\nExecStart=/opt/gpulease/bin/gpulease-server workers\n```",
    ],
)
def test_an_incomplete_command_would_be_noticed(wrong: str) -> None:
    ((program, *arguments),) = commands_shown(wrong)
    with pytest.raises((SystemExit, UsageError)):
        parse(program, *arguments)


def test_the_example_of_an_accounts_file_is_one_the_program_reads() -> None:
    assert load_accounts(ROOT / "gpulease.example.toml").keys() == {"main"}


def test_every_line_of_the_example_may_be_switched_on(tmp_path: Path) -> None:
    text = (ROOT / "gpulease.example.toml").read_text(encoding="utf-8")
    everything = tmp_path / "gpulease.toml"
    everything.write_text(re.sub(r"^# (\w+ = |\[\[)", r"\1", text, flags=re.MULTILINE))
    assert load_accounts(everything)["main"].endpoint_url is not None


def test_the_hooks_before_a_commit_need_no_other_host() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert [repository["repo"] for repository in config["repos"]] == ["local"]
