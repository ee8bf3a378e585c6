"""Every table, by subject. Constraints make the forbidden impossible; see migrations for row-level security."""

from app.db.schema.attempts import attempt, attempt_archive, attempt_price
from app.db.schema.budgets import budget, budget_turn, quote
from app.db.schema.fleet import (
    account,
    account_check,
    account_region,
    installation,
    invariant,
    offering,
    orphan,
    part_price,
    periodic_job,
    provider_bucket,
    worker_heartbeat,
)
from app.db.schema.gpu_benchmarks import gpu_benchmark
from app.db.schema.gpus import bad_gpu, gpu_latest, gpu_rollup, gpu_sample, gpu_series
from app.db.schema.groups import launch_batch, lease_group
from app.db.schema.invoices import invoice_import, invoice_line
from app.db.schema.leases import event, lease, lease_console, lease_secret
from app.db.schema.metadata import metadata
from app.db.schema.operator_messages import operator_message
from app.db.schema.reservations import reservation
from app.db.schema.ssh_keys import ssh_key
from app.db.schema.tenancy import api_key, audit, idempotency, quota, quota_claim, tenant
from app.db.schema.usage import cost_rollup, usage_progress, usage_record, usage_rollup
from app.db.schema.volumes import volume
from app.db.schema.webhooks import webhook, webhook_delivery, webhook_secret

__all__ = [
    "account",
    "account_check",
    "account_region",
    "api_key",
    "attempt",
    "attempt_archive",
    "attempt_price",
    "audit",
    "bad_gpu",
    "budget",
    "budget_turn",
    "cost_rollup",
    "event",
    "gpu_benchmark",
    "gpu_latest",
    "gpu_rollup",
    "gpu_sample",
    "gpu_series",
    "idempotency",
    "installation",
    "invariant",
    "invoice_import",
    "invoice_line",
    "launch_batch",
    "lease",
    "lease_console",
    "lease_group",
    "lease_secret",
    "metadata",
    "offering",
    "operator_message",
    "orphan",
    "part_price",
    "periodic_job",
    "provider_bucket",
    "quota",
    "quota_claim",
    "quote",
    "reservation",
    "ssh_key",
    "tenant",
    "usage_progress",
    "usage_record",
    "usage_rollup",
    "volume",
    "webhook",
    "webhook_delivery",
    "webhook_secret",
    "worker_heartbeat",
]
