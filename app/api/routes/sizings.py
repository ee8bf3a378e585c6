"""Sizings: how much GPU memory a model needs, and a lease request for it."""

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import Response
from pydantic import Field
from pydantic_core import to_json

from app.api.http.responses import answer
from app.api.http.routing import UseServices, Viewer, costly
from app.api.http.routing import router as make_router
from app.api.routes.offerings import Offering, offering_json, sight_of
from app.api.schemas.base import Moment, Money, View
from app.api.schemas.hardware import GROWS
from app.api.schemas.sizings import NewSizing, SizedLease, SizedModel, SizingBytes, SizingFit, sizing_request
from app.domain.lease_requests import LeaseRequest
from app.domain.money import format_money
from app.domain.sizing.fits import GpuFit
from app.domain.sizing.memory import Precision, SizingTask

router = make_router("sizings")


class SizedOffering(Offering):
    """An offering for the proposed lease."""

    rate_per_hour: Annotated[
        Money, Field(description="USD for `lease` there: the VM, its network disks and its public address.")
    ]


class Sizing(View):
    """How much GPU memory a model needs, and which GPUs have it. `fits` and `offerings` begin with the cheapest."""

    task: Annotated[SizingTask, Field(description="What the GPUs do with the model. " + GROWS)]
    precision: Annotated[Precision, Field(description="The format in which the weights are stored. " + GROWS)]
    model: SizedModel
    bytes: Annotated[SizingBytes, Field(description="GPU memory by part, for one GPU that has everything.")]
    assumptions: Annotated[list[str], Field(description="What the figures assume, in sentences.")]
    fits: Annotated[list[SizingFit], Field(description="The classes of GPUs that have the memory, the cheapest first.")]
    offerings: Annotated[list[SizedOffering], Field(description="The cheapest instance types: at most five.")]
    lease: Annotated[SizedLease | None, Field(description="A request for the cheapest one. Null: none can be had.")]
    as_of: Moment


@router.post("/v1/sizings", response_model=Sizing)
@costly
async def create_sizing(body: NewSizing, principal: Viewer, services: UseServices) -> Response:
    """Size a model: its GPU memory by part, the GPUs that have it, and a lease request. The call creates nothing.

    The figures follow from formulas: nothing is measured. `assumptions` states what they take for granted.
    """
    request = sizing_request(body)
    sizing = await services.sizings.size(principal, request)
    sight = sight_of(services, principal, sizing.as_of)
    content = {
        "task": body.task,
        "precision": body.precision,
        "model": {name: getattr(sizing.shape, name) for name in ("parameters", "active_parameters", "layers")},
        "bytes": {name: getattr(sizing.parts, name) for name in SizingBytes.model_fields},
        "assumptions": sizing.assumptions,
        "fits": [_fit(one) for one in sizing.fits],
        "offerings": [
            {**offering_json(offering, sight), "rate_per_hour": format_money(rate)}
            for offering, rate in sizing.offerings
        ],
        "lease": None if sizing.lease is None else _lease(sizing.lease, body.tenant_id),
        "as_of": sizing.as_of,
    }
    return answer(to_json(content))


def _fit(one: GpuFit) -> dict[str, Any]:
    return {
        "gpu": one.gpu.model,
        "memory_gib": one.gpu.memory_gib,
        "vendor": one.gpu.vendor,
        "count": one.count,
        "margin_percent": one.margin_percent,
        "interconnect": one.interconnect,
    }


def _lease(request: LeaseRequest, tenant_id: str | None) -> dict[str, Any]:
    assert request.gpu is not None
    gpu = asdict(request.gpu)
    values = {name: getattr(request, name, None) for name in SizedLease.model_fields}
    shown = {name: gpu[name] for name in ("model", "count", "memory_gib", "interconnect")}
    return {**values, "gpu": shown, "tenant_id": tenant_id}
