"""Evidence goes to the named file, a table to standard output."""

import json
from pathlib import Path

import pytest

from tests.reports import Table, print_tables, report, write_evidence


def test_a_report_writes_its_evidence_prints_its_tables_and_names_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "reports" / "run.json"
    table = Table(title="A run", columns=("kind", "count"), rows=[("kills", 12345), ("stalls", 2.5), ("losses", None)])
    report(path, {"kinds": {"kills": 12345}}, table)
    lines = capsys.readouterr().out.split("\n")
    assert [line.split() for line in lines if line] == [
        ["A", "run"],
        ["kind", "count"],
        ["kills", "12,345"],
        ["stalls", "2.50"],
        ["losses", "-"],
        ["Evidence:", str(path)],
    ]
    written = json.loads(path.read_text())
    assert written.keys() == {"machine", "commit", "written_at", "kinds"}
    assert written["kinds"] == {"kills": 12345}


def test_evidence_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    for cases in (1, 2):
        write_evidence(path, {"cases": cases})
    assert json.loads(path.read_text())["cases"] == 2
    assert list(tmp_path.iterdir()) == [path]


def test_a_cell_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    print_tables(Table(title="Seeds", columns=("seed", "fine"), rows=[("[red]1[/red]", True), (":warning:", False)]))
    printed = capsys.readouterr().out
    assert "[red]1[/red]" in printed
    assert ":warning:" in printed
