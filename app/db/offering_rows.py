"""From a row of `fleet.candidates` to the domain's Offering: one way for both sides."""

from typing import Any

from app.domain.offerings import CoolOff, Gpu, InstanceType, Market, Offering, OfferingKey

_USABLE = ("ok", "unchecked")


def offering_from_row(row: Any) -> Offering:
    """The domain's view; an account that is set aside excludes its offerings with the reason."""
    return Offering(
        key=OfferingKey(
            account=row.account,
            region=row.region,
            zone=row.zone,
            instance_type=row.instance_type,
            market=Market(row.market),
        ),
        provider=row.provider,
        type=_type(row),
        price_per_hour=row.price_per_hour,
        price_as_of=row.price_as_of,
        price_source=row.price_source,
        price_live=row.price_live,
        images=frozenset(row.account_images or ()),
        cool_off=_cool_off(row),
        launches=row.launches,
        refusals=row.refusals,
        ready_seconds=None if row.ready_seconds is None else float(row.ready_seconds),
        cordoned=row.cordoned,
        account_problem=_account_problem(row),
    )


def _type(row: Any) -> InstanceType:
    gpu = Gpu(
        model=row.gpu_model,
        count=row.gpu_count,
        memory_gib=row.gpu_memory_gib,
        interconnect=row.gpu_interconnect,
    )
    return InstanceType(name=row.instance_type, gpu=gpu, vcpus=row.vcpus, memory_gib=row.memory_gib)


def _cool_off(row: Any) -> CoolOff | None:
    if row.silent_until is not None and (row.cool_until is None or row.cool_until < row.silent_until):
        error = row.region_error
        return CoolOff(until=row.silent_until, reason="provider_error", code=error["code"], count=row.cool_count)
    if row.cool_until is None:
        return None
    return CoolOff(until=row.cool_until, reason=row.cool_reason, code=row.cool_code, count=row.cool_count)


def _account_problem(row: Any) -> str | None:
    if row.account_cordoned is not None:
        return "cordoned by an operator"
    if row.account_state in _USABLE:
        return None
    error = row.account_error or {}
    return error.get("message") or f"it is {row.account_state}"
