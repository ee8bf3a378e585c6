"""`gpulease size`: how much GPU memory a model needs, which GPUs have it, and the command that leases them."""

import json
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from app.cli import lookup, values
from app.cli.errors import Json
from app.cli.render import times
from app.cli.render.layout import FittedTable, Layout
from app.cli.render.output import Columns, at, details, price
from app.cli.render.sheet import Sheet
from app.cli.render.texts import gpus, location
from app.cli.session import Session

PATH = "/v1/sizings"
_MODEL, _WORK, _LEASE = "The model: one of these", "What it does", "The lease"
_TASKS = {"lora": "finetuning_lora"}
_PARTS = ("weights", "kv_cache", "gradients", "optimizer", "activations", "overhead", "total")
_GB = 10**9
_LONGEST_LINE = 78

FITS: Columns = (
    ("GPU", lambda fit: f"{fit.get('gpu')} {fit.get('memory_gib')} GiB"),
    ("COUNT", "count"),
    ("MARGIN", lambda fit: f"{fit.get('margin_percent')} %"),
    ("INTERCONNECT", lambda fit: fit.get("interconnect") or "not needed"),
)
_FITS_LAYOUT = Layout(("GPU", "COUNT", "MARGIN", "INTERCONNECT"), right=frozenset({"COUNT", "MARGIN"}))
_OFFERINGS: Columns = (
    ("TYPE", "instance_type"),
    ("GPUS", gpus),
    ("LOCATION", location),
    ("MARKET", "market"),
    ("USD/H", price("price_per_hour")),
    ("TFLOPS/USD", "benchmark.tflops_per_usd"),
)
_OFFERINGS_LAYOUT = Layout(
    ("TYPE", "USD/H", "GPUS", "LOCATION", "MARKET", "TFLOPS/USD"), right=frozenset({"USD/H", "TFLOPS/USD"})
)


@dataclass(frozen=True)
class SizeOptions:
    """The fields of a sizing. The API fills in defaults for missing options."""

    parameters: Annotated[
        str | None, typer.Option(metavar="NUMBER", help="Number of parameters, such as 7b.", rich_help_panel=_MODEL)
    ] = None
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The model's config.json (- for standard input).", rich_help_panel=_MODEL),
    ] = None
    task: Annotated[
        Literal["inference", "training", "finetuning_lora", "lora"],
        typer.Option(help="lora is short for finetuning_lora.", rich_help_panel=_WORK),
    ] = "inference"
    precision: Annotated[
        Literal["bf16", "fp16", "fp32", "fp8", "int8", "int4"] | None,
        typer.Option(help="Number format of the weights. Default: bf16.", rich_help_panel=_WORK),
    ] = None
    tokens: Annotated[
        int | None, typer.Option("--context", min=1, metavar="TOKENS", help="Default: 4096.", rich_help_panel=_WORK)
    ] = None
    concurrency: Annotated[
        int | None, typer.Option(min=1, help="Inference: sequences at once. Default: 1.", rich_help_panel=_WORK)
    ] = None
    batch: Annotated[
        int | None, typer.Option(min=1, help="Training: sequences per GPU and step. Default: 1.", rich_help_panel=_WORK)
    ] = None
    optimizer: Annotated[
        Literal["adamw", "adamw_8bit", "sgd", "adafactor"] | None,
        typer.Option(help="Training. Default: adamw.", rich_help_panel=_WORK),
    ] = None
    sharding: Annotated[
        Literal["none", "tensor", "zero_1", "zero_2", "zero_3"] | None,
        typer.Option(help="Default: tensor for inference, zero_3 for training.", rich_help_panel=_WORK),
    ] = None
    kv_precision: Annotated[
        Literal["bf16", "fp16", "fp32", "fp8"] | None,
        typer.Option(help="Inference: number format of the KV cache.", rich_help_panel=_WORK),
    ] = None
    lora_rank: Annotated[int | None, typer.Option(min=1, help="Default: 16.", rich_help_panel=_WORK)] = None
    market: Annotated[
        Literal["on_demand", "spot", "spot_first", "reserved", "reserved_first", "any"] | None,
        typer.Option(help="Default: on_demand.", rich_help_panel=_LEASE),
    ] = None
    ttl: Annotated[
        int | None,
        typer.Option(metavar="DURATION", parser=values.seconds, help="Default: 1h.", rich_help_panel=_LEASE),
    ] = None
    tenant: Annotated[
        str | None, typer.Option(help="Tenant to act for, by id or name (operators).", rich_help_panel=_LEASE)
    ] = None

    def body(self, model: str | None) -> Json:
        """The body of the call. Raises BadParameter unless the model is described once."""
        if sum(description is not None for description in (model, self.parameters, self.config)) != 1:
            msg = "describe the model once: a MODEL, --parameters 7b or --config config.json"
            raise typer.BadParameter(msg)
        fields = {
            "task": _TASKS.get(self.task, self.task),
            "model": model,
            "parameters": self.parameters,
            "config": None if self.config is None else _config(self.config),
            "precision": self.precision,
            "context": self.tokens,
            "concurrency": self.concurrency,
            "batch": self.batch,
            "optimizer": self.optimizer,
            "sharding": self.sharding,
            "kv_precision": self.kv_precision,
            "lora_rank": self.lora_rank,
            "market": self.market,
            "ttl_seconds": self.ttl,
        }
        return {name: value for name, value in fields.items() if value is not None}


def _config(path: Path) -> Json:
    try:
        document = json.loads(sys.stdin.read() if str(path) == "-" else values.text_file(path))
    except ValueError as error:
        msg = f"{path} is not JSON: {error}"
        raise typer.BadParameter(msg) from None
    if not isinstance(document, dict):
        msg = f"{path} must be a JSON object: the config.json of a model"
        raise typer.BadParameter(msg)
    return document


def size(
    session: Session,
    options: SizeOptions,
    model: Annotated[str | None, typer.Argument(help="Name of a model, such as meta-llama/Llama-3.1-70B.")] = None,
) -> None:
    """Size a model: its GPU memory, the GPUs that have it, and the command that leases them."""
    body = options.body(model)
    api = session.api(operator=options.tenant is not None)
    if options.tenant is not None:
        body["tenant_id"] = lookup.tenant_id(api, options.tenant)
    document = api.post(PATH, body)
    session.answer(document, view, lambda seen: Sheet(FITS, seen.get("fits") or []))


def view(document: Json) -> RenderableType:
    """Memory by part, fits, offerings, assumptions and the command."""
    parts: list[RenderableType] = [details(_facts(document))]
    if document.get("fits"):
        parts += [Text(), FittedTable(FITS, document["fits"], _FITS_LAYOUT)]
    if document.get("offerings"):
        parts += [Text(), FittedTable(_OFFERINGS, document["offerings"], _OFFERINGS_LAYOUT)]
    parts += [Text(), *(Text(f"- {sentence}", "dim") for sentence in document.get("assumptions") or ())]
    if document.get("lease"):
        parts += [Text(), Text(command_line(document["lease"]))]
    return Group(*parts)


def command_line(lease: Json) -> str:
    """The command that leases what the API proposes, on lines that fit 80 columns and that a shell joins."""
    options = {
        "--gpu": f"{at(lease, 'gpu.model')}:{at(lease, 'gpu.count')}",
        "--gpu-memory": at(lease, "gpu.memory_gib"),
        "--interconnect": at(lease, "gpu.interconnect"),
        "--market": lease.get("market"),
        "--disk": lease.get("disk_gib"),
        "--ttl": times.exact(lease.get("ttl_seconds") or 0),
        "--tenant": lease.get("tenant_id"),
    }
    lines = ["gpulease lease create"]
    for name, value in options.items():
        word = "" if value is None else f" {name} {shlex.quote(str(value))}"
        if len(lines[-1] + word) > _LONGEST_LINE:
            lines[-1] += " \\"
            lines.append(f" {word}")
        else:
            lines[-1] += word
    return "\n".join(lines)


def _facts(document: Json) -> list[tuple[str, object]]:
    count, active = at(document, "model.parameters"), at(document, "model.active_parameters")
    model = f"{_billions(count)} parameters" + (f", {_billions(active)} for each token" if active != count else "")
    sizes = document.get("bytes") or {}
    by_part = [(name.replace("_", " "), f"{sizes[name] / _GB:,.2f} GB") for name in _PARTS if sizes.get(name)]
    return [("model", model), ("task", f"{document.get('task')} in {document.get('precision')}"), *by_part]


def _billions(count: float) -> str:
    return f"{count / 10**9:.2f} billion" if count >= 10**9 else f"{count / 10**6:.1f} million"
