"""The API's errors in words: what was rejected, why, and what to try."""

import re
from collections.abc import Iterator, Mapping

from app.cli.errors import Json, ProblemError
from app.cli.render.output import rounded, words
from app.cli.render.texts import quota_text

_STANDARD = frozenset(
    {"type", "title", "status", "detail", "instance", "code", "retryable", "errors", "request_id"},
)
_QUOTA = frozenset({"resource", "limit", "used", "asked", "available", "shortages"})
_LONGEST_LIST = 8

_ADVICE: Mapping[str, str] = {
    "quota_exceeded": "release leases, or request a higher quota; `gpulease quota show` lists the limits",
    "budget_exceeded": (
        "release leases, request a shorter --ttl or less hardware, or wait until the budget resets; "
        "`gpulease budget list` shows the budgets"
    ),
    "quote_expired": "get a new one with `gpulease quote`",
    "no_offering": "relax the request; `gpulease lease plan` shows what is excluded",
    "unknown_gpu_model": "`gpulease gpus` lists the models and their prices",
    "unknown_region": "`gpulease regions` lists the regions",
    "unknown_instance_type": "`gpulease offerings` lists the instance types",
    "price_cap_too_low": "raise --max-price to the lowest price or above",
    "name_taken": "choose another --name, or use the lease with this name",
    "term_exceeded": "request a shorter term; `gpulease me` shows the tenant's limits",
    "unauthenticated": "check the key: `gpulease profile list` shows where the command finds it",
}
"What to do about a code. Other codes explain themselves in `detail`."

OPTIONS: Mapping[str, str] = {
    "gpu": "--gpu",
    "gpu.memory_gib": "--gpu-memory",
    "gpu.min_count": "--min-gpus",
    "gpu.interconnect": "--interconnect",
    "gpu.vendor": "--vendor",
    "instance_types": "--type",
    "providers": "--provider",
    "regions": "--region",
    "max_price_per_hour": "--max-price",
    "max_cost": "--max-cost",
    "ttl_seconds": "--ttl",
    "wait_seconds": "--wait",
    "expiry_warnings_seconds": "--warn-before",
    "ssh_public_keys": "--ssh-key",
    "ssh_keys": "--ssh-key",
    "startup_script": "--startup-script",
    "disk_gib": "--disk",
    "allowed_cidrs": "--cidr",
    "min_memory_gib": "--min-memory",
    "min_local_disk_gib": "--min-local-disk",
    "min_vcpus": "--min-vcpus",
    "on_interruption": "--on-interruption",
    "extend_by_seconds": "DURATION",
    "image": "--image",
    "volumes": "--volume",
    "size_gib": "--size",
    "labels": "--label",
    "market": "--market",
    "name": "--name",
}
"Options of the commands by field of the API. A field has the same option in each command."
_FIELD = re.compile(r"[a-z][a-z0-9_]*(?:\.[a-z0-9_]+)*:?")


def problem_lines(error: ProblemError) -> list[str]:
    """Title and code, then the causes, the advice and the request id, indented."""
    head = f"{error} ({error.status} {error.code})".replace(" )", ")")
    foot = [f"request id: {error.request_id}"] if error.request_id else []
    advice = [f"try: {_ADVICE[error.code]}"] if error.code in _ADVICE else []
    return [head, *("  " + line for line in (*causes(error), *advice, *foot))]


def causes(error: ProblemError, options: Mapping[str, str] = OPTIONS) -> Iterator[str]:
    """What was rejected and why, a line each, from the members of the problem document.

    `options`: what a field is called for the reader. Other fields keep their names.
    """
    document = error.document
    if error.code == "quota_exceeded" and document.get("resource"):
        yield from map(quota_text, document.get("shortages") or [document])
        members = {name: value for name, value in document.items() if name not in _QUOTA}
    else:
        detail = str(document.get("detail") or "")
        if detail and detail != str(error) and not document.get("excluded"):
            yield _with_options(detail, options)  # that of excluded offerings repeats their messages
        yield from (
            _fault(fault, options) for fault in document.get("errors") or () if _is_new(fault.get("detail"), detail)
        )
        members = {name: value for name, value in document.items() if _is_new(value, detail)}
    for name, value in members.items():
        if name not in _STANDARD:
            yield from _member(name, value)


def _is_new(value: object, detail: str) -> bool:
    """Whether `detail` leaves the value out. The API's `detail` often contains the first field error and its members."""
    return re.search(rf"(?<![\w.]){re.escape(words(value))}(?!\w)", detail) is None


def _fault(fault: Json, options: Mapping[str, str]) -> str:
    pointer, detail = fault.get("pointer"), fault.get("detail") or ""
    return f"{_option(str(pointer), options)}: {detail}" if pointer else str(detail)


def _option(pointer: str, options: Mapping[str, str]) -> str:
    """The option of a field, `--region` for `#/body/regions/0`. Fields without an option keep their name."""
    path = pointer.removeprefix("#").strip("/").removeprefix("body/").split("/")
    names = [part for part in path if not part.isdigit()]
    option = options.get(".".join(names)) or options.get(names[0] if names else "")
    return option or ".".join(path)


def _with_options(detail: str, options: Mapping[str, str]) -> str:
    """`--region names no region …` for `regions.0 names no region …`."""
    first, space, rest = detail.partition(" ")
    option = _option(first.rstrip(":").replace(".", "/"), options) if _FIELD.fullmatch(first) else first
    return f"{option}{':' if first.endswith(':') and option != first else ''}{space}{rest}"


def _member(name: str, value: object) -> Iterator[str]:
    """A further member of the problem, such as the `known` models or the `excluded` offerings."""
    title = name.replace("_", " ")
    if value in (None, [], {}):
        return
    if not isinstance(value, list):
        yield f"{title}: {rounded(value) if 'price' in name else words(value)}"
    elif name == "excluded":
        yield from (f"{group['message']}; nearest: {group['nearest']}" for group in value[:_LONGEST_LIST])
    elif any(isinstance(entry, dict) for entry in value):
        yield from (f"{title}: {words(entry)}" for entry in value[:_LONGEST_LIST])
        if len(value) > _LONGEST_LIST:
            yield f"{title}: {len(value) - _LONGEST_LIST} more, see --json"
    else:
        yield f"{title}: {words(value)}"
