"""Short texts for the values of the API: placements, GPUs, reasons, errors, amounts, quotas."""

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation

from app.cli.render.output import at, rounded, words


def gpus(place: object) -> str | None:
    """`8 x A100 40 GiB` of an offering, placement or request. None without a model.

    A request with a minimum shows `4+ x A100`.
    """
    model = at(place, "gpu.model")
    if not model:
        return None
    memory, least = at(place, "gpu.memory_gib"), at(place, "gpu.min_count")
    count = f"{least}+" if least is not None else at(place, "gpu.count")
    return f"{count} x {model}" + (f" {memory} GiB" if memory else "")


def location(place: object) -> str | None:
    """`aws us-east-1a`: the provider, and the zone or else the region."""
    parts = [at(place, "provider"), at(place, "zone") or at(place, "region")]
    return " ".join(str(part) for part in parts if part) or None


def placement(place: object) -> str | None:
    """`aws us-east-1a p4d.24xlarge spot`. None without one."""
    parts = [location(place), at(place, "instance_type"), at(place, "market")]
    return " ".join(str(part) for part in parts if part) or None


def requested(request: object) -> str | None:
    """The requested hardware."""
    return gpus(request) or words(at(request, "instance_types"))


def reason_text(reason: object) -> str:
    """`code: message` of a reason, which may be the code alone."""
    if not isinstance(reason, Mapping):
        return words(reason)
    return ": ".join(str(reason[name]) for name in ("code", "message") if reason.get(name)) or words(reason)


def error_text(error: object) -> str:
    """The provider's code and the message of gpulease; for operators also the provider's message."""
    message = at(error, "provider_message") or at(error, "message")
    parts = [at(error, "code") or at(error, "class"), message]
    return ": ".join(str(part) for part in parts if part) or words(error)


def amount(value: object) -> str:
    """A price or count without needless decimals: `17.06`, `0.4326`, `8`."""
    text = str(value)
    try:
        number = Decimal(text)
    except InvalidOperation:
        return text
    return f"{number:f}".split(".", maxsplit=1)[0] if number == number.to_integral_value() else str(rounded(text))


def quota_text(need: Mapping[str, object]) -> str:
    """`gpus: 8 requested, 7 of 64 available` for one resource of a plan, or of the error `quota_exceeded`."""
    asked, limit = amount(need.get("asked")), need.get("limit")
    if limit is None:
        return f"{need.get('resource')}: {asked} requested, no limit"
    free = need.get("available")
    if free is None:
        free = Decimal(str(limit)) - Decimal(str(need.get("used") or 0))
    return f"{need.get('resource')}: {asked} requested, {amount(free)} of {amount(limit)} available"


NOT_INCLUDED: Mapping[str, str] = {
    "compute": "disk, public address, traffic",
    "compute_disk_address": "traffic",
}
"What an amount leaves out, by the scope that it covers."


def not_included(item: object) -> str | None:
    """The parts that a cost or estimate leaves out. None for a scope that this version does not know."""
    return NOT_INCLUDED.get(str(at(item, "covers")))


EXCLUSIONS: Mapping[str, str] = {
    "gpu_model": "other GPU model",
    "gpu_count": "other number of GPUs",
    "gpu_memory": "less memory per GPU",
    "gpu_vendor": "other GPU vendor",
    "gpu_fraction": "part of a GPU",
    "interconnect": "other interconnect",
    "vcpus": "fewer vCPUs",
    "memory": "less memory",
    "local_disk": "less local disk",
    "instance_type": "other instance type",
    "market": "other market",
    "provider": "other provider",
    "region": "other region",
    "image": "image not available",
    "reserved_only": "reserved capacity only",
    "no_driver_image": "no image with drivers",
    "no_price": "price unknown",
    "price_cap": "above the maximum price",
    "spend_cap": "above the spend cap in a minute",
    "volume_elsewhere": "not where the volumes are",
    "volume_kind": "cannot attach the volumes",
    "quote": "above the quote",
    "cordoned": "cordoned by an operator",
    "account": "account not usable",
    "reservation": "reservation not usable",
}
"Codes of `excluded` in words. The API may add codes."


def exclusion_text(code: object) -> str:
    """The code in words."""
    return EXCLUSIONS.get(str(code), str(code).replace("_", " "))
