"""The pages of an operator's year are scripts: a bare machine is deployed, upgraded, billed and restored by their words alone."""

import gzip
import io
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow.csv
import pytest
from pyarrow import parquet

from cloudsim.testing import running
from tests.deployment import documents
from tests.harness.databases import ROOT
from tests.server.bare_machine import Machine
from tests.workers.invoices.exports import Export, csv_text


@pytest.fixture(scope="module")
def machine(redis_server: str) -> Iterator[Machine]:
    """Deployed by the page, after the three lines of SQL that it names."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="gpulease-machine-")))
        folder.chmod(0o711)
        made = Machine(folder, redis_server, stack.enter_context(running()).url, stack)
        made.psql(documents.block("running.md", "sql", "CREATE ROLE gpulease_owner LOGIN"))
        typed = made.follow("howto/deploy.md")
        expected = {"gpulease-server migrate", "gpulease-server operator-key", "gpulease-server deadman-key"}
        assert expected | {"gpulease ops summary"} <= set(typed)
        assert any(command.startswith("gpulease-server deadman --installation") for command in typed)
        yield made


def test_a_deployment_of_the_page_s_words_is_well(machine: Machine) -> None:
    machine.await_calm()
    summary = " ".join(machine.summary().split())
    assert "warnings None" in summary
    assert all(kind in summary for kind in ("worker 1", "inventory 1", "deadman"))


def test_an_upgrade_leaves_all_processes_alive(machine: Machine) -> None:
    typed = machine.follow("howto/upgrade.md")
    assert typed == ["gpulease-server migrate", "gpulease ops summary", "gpulease-server migrate"]
    machine.await_calm()


def test_a_bill_is_imported_and_read(machine: Machine) -> None:
    whole, parts = (
        Export("aws", month="2026-11"),
        [Export("aws", month="2026-11", account=f"payer-{n}") for n in (2, 3)],
    )
    text = csv_text(whole.vm(1, 3, "1.5").rows)
    (machine.folder / "focus-2026-11.csv.gz").write_bytes(gzip.compress(text.encode()))
    for number, part in enumerate(parts, 1):
        rows = pyarrow.csv.read_csv(io.BytesIO(csv_text(part.vm(number, 3, "2").rows).encode()))
        parquet.write_table(rows, machine.folder / f"part-{number}.parquet")
    imported, read = machine.follow("howto/reconcile.md")[-2:]
    assert imported.count("gpulease-server reconcile") == 2
    assert read.startswith("curl")
    assert '"items":' in machine.said(read)


def test_a_back_up_of_the_page_s_words_brings_the_leases_back(machine: Machine) -> None:
    """Into a server that knows no role of gpulease."""
    lease_id = machine.create_lease()
    typed = machine.follow("howto/backup.md")
    assert [command.split()[0] for command in typed[:4]] == ["pg_dump", "CREATE", "pg_restore", "UPDATE"]
    assert typed[4:7] == ["gpulease ops orphans", "gpulease ops adopt", "gpulease ops resume"]
    assert machine.state_of(lease_id) == "active"
    machine.await_calm()


def test_the_server_s_commands_of_the_runbooks_run(machine: Machine) -> None:
    pages = (ROOT / "docs" / "runbooks").glob("*.md")
    commands = {found for page in pages for found in re.findall(r"`(gpulease-server [^`…]+)`", page.read_text())}
    assert commands >= {"gpulease-server check", "gpulease-server migrate"}
    for command in sorted(commands):
        machine.type(command)
