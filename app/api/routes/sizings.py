"""Sizings: how much GPU memory a model needs, and a lease request for it."""

from dataclasses import asdict
from typing import Any

from fastapi import Response
from pydantic_core import to_json

from app.api.http.responses import answer
from app.api.http.routing import UseServices, Viewer, costly
from app.api.http.routing import router as make_router
from app.api.routes.offerings import offering_json, sight_of
from app.api.schemas.sizings import NewSizing, SizedLease, Sizing, SizingBytes, sizing_request
from app.domain.lease_requests import LeaseRequest
from app.domain.sizing.fits import GpuFit

router = make_router("sizings")


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
        "fits": [_fit(fit) for fit in sizing.fits],
        "offerings": [offering_json(offering, sight, request.parts) for offering, request in sizing.offerings],
        "lease": None if sizing.lease is None else _lease(sizing.lease, body.tenant_id),
        "as_of": sizing.as_of,
    }
    return answer(to_json(content))


def _fit(fit: GpuFit) -> dict[str, Any]:
    return {
        "gpu": fit.gpu.model,
        "memory_gib": fit.gpu.memory_gib,
        "vendor": fit.gpu.vendor,
        "count": fit.count,
        "margin_percent": fit.margin_percent,
        "interconnect": fit.interconnect,
    }


def _lease(request: LeaseRequest, tenant_id: str | None) -> dict[str, Any]:
    assert request.gpu is not None
    gpu = asdict(request.gpu)
    values = {name: getattr(request, name, None) for name in SizedLease.model_fields}
    gpu_members = {name: gpu[name] for name in ("model", "count", "memory_gib", "interconnect")}
    return {**values, "gpu": gpu_members, "tenant_id": tenant_id}
