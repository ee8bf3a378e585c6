"""The endpoint where the agent of a leased VM proves its GPUs. It accepts the token of an attempt instead of an API key."""

from typing import Annotated, Any

from fastapi import Body, Request, Response

from app.api.http.auth import REQUEST_ID
from app.api.http.routing import UseServices, agent_router, calling_agent, count_report

router = agent_router()


@router.post("/v1/agent/proof", status_code=204, response_class=Response)
async def report_proof(
    request: Request,
    body: Annotated[
        dict[str, Any],
        Body(
            description="Version, agent and driver, and the state of each GPU. At most 16 KiB, 64 GPUs and 64 Xids.",
            json_schema_extra={"maxProperties": 32},
        ),
    ],
    services: UseServices,
) -> Response:
    """Report the state of the calling VM's GPUs, before its start-up script runs. Each VM receives its token at launch.

    The first report of an attempt counts. People do not use this call.
    """
    agent = calling_agent(request)
    count_report(request, agent)
    await services.proofs.accept(agent, body, request.scope[REQUEST_ID])
    return Response(status_code=204)
