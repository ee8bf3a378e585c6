"""The endpoint where agents in leased VMs report samples of their GPUs. It accepts an agent's token, not an API key."""

from fastapi import APIRouter, Request, Response

from app.api.http.auth import bearer
from app.api.http.sample_route import SampleRoute, read_report
from app.services.container import Services

router = APIRouter(route_class=SampleRoute, tags=["agent"], generate_unique_id_function=lambda route: route.name)

_PERCENT = {"type": ["number", "null"], "minimum": 0, "maximum": 100}
_NUMBER = {"type": ["number", "null"]}
_GPU = {
    "type": "object",
    "required": ["uuid"],
    "properties": {
        "uuid": {"type": "string", "maxLength": 100},
        "utilization": _PERCENT,
        **dict.fromkeys(("memory_used_mib", "memory_mib", "power_w", "temperature_c", "sm_clock_mhz"), _NUMBER),
        "ecc_uncorrected": {"type": ["integer", "null"]},
        "remap_failed": {"type": ["boolean", "null"]},
        "recovery_action": {"type": ["string", "null"]},
        "throttle": {"type": ["integer", "null"]},
    },
}
_ERROR = {
    "type": "object",
    "required": ["source", "text"],
    "properties": {
        "source": {"type": "string", "maxLength": 100},
        "text": {"type": "string", "maxLength": 200},
        "gpu": {"type": ["integer", "null"]},
        "code": {"type": ["integer", "null"]},
    },
}
_SAMPLE = {
    "type": "object",
    "required": ["at", "gpus"],
    "properties": {
        "at": {"type": "number", "description": "Seconds since 1970 by the VM's clock."},
        "driver_gpus": {"type": ["integer", "null"], "description": "GPUs that the driver names."},
        "errors": {"type": "array", "maxItems": 8, "items": _ERROR},
        "gpus": {"type": "array", "maxItems": 64, "items": _GPU},
        **dict.fromkeys(("cpu_percent", "memory_percent", "disk_percent"), _PERCENT),
    },
}
_XID = {
    "type": "object",
    "required": ["code"],
    "properties": {"code": {"type": "integer"}, "gpu": {"type": ["string", "null"]}, "at": _NUMBER},
}
_REPORT = {
    "title": "SampleReport",
    "type": "object",
    "required": ["version", "agent", "samples"],
    "properties": {
        "version": {"type": "integer", "const": 1},
        "agent": {"type": "string", "maxLength": 100},
        "boot_id": {"type": ["string", "null"], "maxLength": 100},
        "samples": {"type": "array", "minItems": 1, "maxItems": 10, "items": _SAMPLE},
        "xids": {"type": "array", "maxItems": 64, "items": _XID},
        "benchmark": {"type": ["object", "null"]},
    },
}
_BODY = {"requestBody": {"required": True, "content": {"application/json": {"schema": _REPORT}}}}


@router.post("/v1/agent/samples", status_code=204, response_class=Response, openapi_extra=_BODY)
async def report_gpu_samples(request: Request) -> Response:
    """Report samples of the calling VM's GPUs, at most once in half a sample period. Each VM receives its token at launch.

    People do not use this call.
    """
    services: Services = request.app.state.services
    body = await read_report(request, services.gpu_samples.refuse_body)
    await services.gpu_samples.accept(bearer(request), body)
    return Response(status_code=204)
