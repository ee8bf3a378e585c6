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
from workers.deadman.command import _options

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
MOST_WORDS_OF_A_RECORD = 350
MOST_RECORDS = 55
MAKE = re.compile(r"^(?:\$ )?make ([a-z-]+)", re.MULTILINE)


def found_in(pattern: re.Pattern[str], pages: list[Path]) -> Iterator[tuple[Path, Any]]:
    """(page, what the pattern finds in it), for every find."""
    return ((page, found) for page in pages for found in pattern.findall(page.read_text(encoding="utf-8")))


def test_links_lead_somewhere() -> None:
    links = found_in(LINK, PAGES)
    assert [f"{page}: {link}" for page, link in links if not (page.parent / link).exists()] == []


def test_code_and_tests_that_explain_a_decision_exist() -> None:
    shown = {(page, ROOT / name, test) for page, (name, test) in found_in(CODE, EXPLAINING)}
    texts = {file: file.read_text(encoding="utf-8") for _, file, test in shown if test and file.exists()}
    missing = [
        f"{page}: {file} {test}"
        for page, file, test in shown
        if not file.exists() or (test and f"def {test}(" not in texts[file])
    ]
    assert missing == []


def test_a_record_of_a_decision_is_short() -> None:
    records = [
        page for page in PAGES if page.parent.name == "decisions" and page.name not in {"index.md", "0000-template.md"}
    ]
    words = {page.name: len(re.findall(r"\S*\w\S*", page.read_text(encoding="utf-8"))) for page in records}
    assert {name: count for name, count in words.items() if count > MOST_WORDS_OF_A_RECORD} == {}
    assert len(records) <= MOST_RECORDS, "merge two records of one subject, or delete one that no longer holds"


def test_make_targets_shown_exist() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert [f"{page}: make {target}" for page, target in found_in(MAKE, PAGES) if target not in targets] == []


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


def test_commands_shown_are_complete() -> None:
    for page in PAGES:
        for program, *arguments in commands_shown(page.read_text(encoding="utf-8")):
            try:
                parse(program, *arguments)
            except (SystemExit, UsageError) as error:
                pytest.fail(f"{page}: {program} {shlex.join(arguments)}: {error!r}")


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
