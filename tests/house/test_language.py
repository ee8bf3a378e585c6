"""Pages and docstrings are plain technical English: short sentences, and no phrases from a list of calques.

A file in `TO_REWRITE` does not satisfy the rules yet. The set may only shrink: a file that satisfies them must leave it.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.sources import ROOT, tracked_files

MOST_WORDS = 30

CALQUES = re.compile(
    r"\b(?:"
    r"told|tells?|"  # reports, returns, records
    r"dear(?:er|est)?|"  # expensive
    r"left over|"  # leftover resource
    r"(?:is|are) no more(?=[.,;:)]|$)|"  # was deleted
    r"out of reach|"  # unreachable
    r"of late|"  # recently
    r"wish(?:es|ed)?|"  # request
    r"whoever|whatever becomes|what becomes of|what became of|"
    r"unknowing|since ever|are the least|"
    r"tak(?:e|es|en) (?:\w+ ){0,3}back|"  # interrupt, release
    r"giv(?:e|es|en) (?:\w+ ){0,2}back|"
    r"stands? behind|"  # belongs to
    r"for want of|"  # for lack of
    r"asked for|asks for"  # requested
    r")\b",
    re.IGNORECASE,
)

CODE_BLOCK = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
CODE = re.compile(r"``[^`]+``|`[^`]+`")
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
NEW_PARAGRAPH = re.compile(r"\s*(?:[-*+]|\d+\.)\s+")
NOT_PROSE = re.compile(r"\s*(?:\||#|<|---)")
SENTENCE_END = re.compile(r"(?<=[.!?])[\"')*]*\s+")
WORD = re.compile(r"[\w$%/…-]*\w[\w$%/…'\u2019.-]*")

FILES = [path.relative_to(ROOT) for path in tracked_files()]
PAGES = [path for path in FILES if path.suffix == ".md" and path.parts[0] == "docs"]
MODULES = [path for path in FILES if path.suffix == ".py" and path.parts[0] in {"app", "workers"}]

TO_REWRITE = frozenset(
    {
        "app/api/http/rate_limits.py",
        "app/api/http/routing.py",
        "app/api/http/shortcut.py",
        "app/db/core/connections.py",
        "app/db/core/engine.py",
        "app/db/core/reads.py",
        "app/db/core/tenant_scope.py",
        "app/db/events/events.py",
        "app/db/events/notices.py",
        "app/db/events/webhook_lanes.py",
        "app/db/events/webhooks.py",
        "app/db/fleet/inventory.py",
        "app/db/fleet/jobs.py",
        "app/db/fleet/offerings.py",
        "app/db/leases/attempts.py",
        "app/db/leases/claims.py",
        "app/db/leases/host_keys.py",
        "app/db/leases/launches.py",
        "app/db/leases/process_locks.py",
        "app/db/leases/reboots.py",
        "app/db/leases/releases.py",
        "app/db/leases/statements.py",
        "app/db/leases/transitions.py",
        "app/db/operations/invariants.py",
        "app/db/operations/metrics.py",
        "app/db/operations/ops.py",
        "app/db/operations/purge.py",
        "app/db/schema/webhooks.py",
        "app/db/tenancy/quota_limits.py",
        "app/db/tenancy/quotas.py",
        "app/domain/ids.py",
        "app/domain/inventory.py",
        "app/domain/lease_requests.py",
        "app/domain/leases.py",
        "app/domain/lifecycle.py",
        "app/domain/offerings.py",
        "app/domain/placement.py",
        "app/domain/placement_failure.py",
        "app/domain/safety.py",
        "app/domain/tokens.py",
        "app/domain/webhook_urls.py",
        "app/domain/webhooks.py",
        "app/hints.py",
        "app/local/embedded_postgres.py",
        "app/local/home.py",
        "app/local/programs.py",
        "app/local/stack.py",
        "app/observability/otel.py",
        "app/prerequisites.py",
        "app/services/container.py",
        "app/services/event_stream.py",
        "app/services/host_keys.py",
        "app/services/key_format.py",
        "app/services/lease_access.py",
        "app/services/lease_creation.py",
        "app/services/lease_requests.py",
        "app/services/leases.py",
        "app/services/metrics.py",
        "app/services/offering_cache.py",
        "app/services/offerings.py",
        "app/services/ops.py",
        "docs/adding-a-provider.md",
        "docs/comparison.md",
        "docs/performance.md",
        "docs/providers/aws.md",
        "docs/providers/azure.md",
        "docs/providers/gcp.md",
        "docs/reliability.md",
        "docs/security.md",
        "docs/simulation.md",
        "workers/database.py",
        "workers/deadman.py",
        "workers/failpoints/__init__.py",
        "workers/failpoints/actions.py",
        "workers/jobs/notices.py",
        "workers/jobs/refresh_offerings.py",
        "workers/lifecycle/bulkheads.py",
        "workers/lifecycle/ranked_offerings.py",
        "workers/lifecycle/reconciler.py",
        "workers/lifecycle/steps/console.py",
        "workers/lifecycle/steps/context.py",
        "workers/lifecycle/steps/end.py",
        "workers/lifecycle/steps/place.py",
        "workers/lifecycle/steps/reboot.py",
        "workers/lifecycle/steps/resolve_unknown.py",
        "workers/lifecycle/steps/send.py",
        "workers/observation/adoption.py",
        "workers/brakes.py",
        "workers/observation/inventory.py",
        "workers/observation/leftovers.py",
        "workers/observation/listings.py",
        "workers/observation/provider_events.py",
        "workers/observation/vm_reasons.py",
        "workers/observation/watch.py",
        "workers/providers/aws/adapter.py",
        "workers/providers/aws/calls.py",
        "workers/providers/aws/clients.py",
        "workers/providers/aws/deadman.py",
        "workers/providers/aws/firewall.py",
        "workers/providers/aws/images.py",
        "workers/providers/aws/instances.py",
        "workers/providers/aws/leftovers.py",
        "workers/providers/aws/offered.py",
        "workers/providers/aws/prices.py",
        "workers/providers/aws/quotas.py",
        "workers/providers/azure/adapter.py",
        "workers/providers/azure/clients.py",
        "workers/providers/azure/firewall.py",
        "workers/providers/azure/images.py",
        "workers/providers/azure/instances.py",
        "workers/providers/azure/interfaces.py",
        "workers/providers/azure/leftovers.py",
        "workers/providers/azure/listings.py",
        "workers/providers/azure/offered.py",
        "workers/providers/azure/resource_tags.py",
        "workers/providers/common/batch.py",
        "workers/providers/common/host_keys.py",
        "workers/providers/common/images.py",
        "workers/providers/common/regions.py",
        "workers/providers/errors.py",
        "workers/providers/gcp/adapter.py",
        "workers/providers/gcp/calls.py",
        "workers/providers/gcp/clients.py",
        "workers/providers/gcp/firewall.py",
        "workers/providers/gcp/instances.py",
        "workers/providers/gcp/offered.py",
        "workers/providers/gcp/operations.py",
        "workers/providers/gcp/spot.py",
        "workers/providers/interfaces.py",
        "workers/providers/metered.py",
        "workers/providers/types.py",
        "workers/verified.py",
    }
)


def paragraphs(text: str) -> Iterator[str]:
    """The prose of a page or docstring. Tables, headings and blocks of code are left out."""
    lines: list[str] = []
    for line in [*COMMENT.sub("", CODE_BLOCK.sub("\n", text)).splitlines(), ""]:
        if not line.strip() or NOT_PROSE.match(line) or NEW_PARAGRAPH.match(line):
            yield " ".join(lines)
            lines = []
        if line.strip() and not NOT_PROSE.match(line):
            lines.append(NEW_PARAGRAPH.sub("", line, count=1) if NEW_PARAGRAPH.match(line) else line.strip())
    yield " ".join(lines)


def faults(text: str) -> list[str]:
    """Sentences that are too long, and sentences that contain a calque."""
    found = []
    for paragraph in paragraphs(text):
        for sentence in SENTENCE_END.split(LINK.sub(r"\1", CODE.sub("X", paragraph))):
            words = len(WORD.findall(sentence))
            if words > MOST_WORDS:
                found.append(f"{words} words: {sentence}")
            found += [f"{calque[0]!r}: {sentence}" for calque in CALQUES.finditer(sentence)]
    return found


def docstrings(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


def faults_of(path: Path) -> list[str]:
    text = (ROOT / path).read_text(encoding="utf-8")
    return faults(text) if path.suffix == ".md" else [fault for one in docstrings(text) for fault in faults(one)]


@pytest.mark.parametrize("path", [*PAGES, *MODULES], ids=str)
def test_the_file_is_plain_technical_english(path: Path) -> None:
    found = faults_of(path)
    if str(path) in TO_REWRITE:
        assert found, "this file satisfies the rules now: remove it from TO_REWRITE"
    else:
        assert not found


def test_every_file_to_rewrite_exists() -> None:
    assert {str(path) for path in (*PAGES, *MODULES)} >= TO_REWRITE


@pytest.mark.parametrize(
    "text",
    [
        "A lease that was taken back ends.",
        "Whoever asks for it gets it.",
        "word " * 31,
        "- One.\n- What becomes of it, GET tells.",
    ],
)
def test_faults_are_found(text: str) -> None:
    assert faults(text)


@pytest.mark.parametrize(
    "text",
    [
        "word " * 30,
        "```\nwhoever\n```",
        "| told |\n|---|\n| whoever |",
        "The field `told` is null. " * 8,
    ],
)
def test_code_and_tables_are_left_out(text: str) -> None:
    assert not faults(text)
