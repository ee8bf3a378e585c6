"""The explanation of a lease that is not active yet."""

from fastapi import Request, Response

from app.api.http.etags import tagged
from app.api.http.routing import UseServices, Viewer, costly
from app.api.http.routing import router as make_router
from app.api.schemas.explanations import LeaseExplanation, explanation_view
from app.services.preconditions import list_tag

router = make_router("leases")


@router.get("/v1/leases/{lease_id}/explain", response_model=LeaseExplanation)
@costly
async def explain_lease(request: Request, lease_id: str, principal: Viewer, services: UseServices) -> Response:
    """Explain why a lease is not active yet, when gpulease tries next, and which changed request would fit now."""
    view = explanation_view(await services.explanations.explain(principal, lease_id), principal.role)
    tag = list_tag((), also=view.model_dump_json(exclude={"as_of"}))
    return tagged(request, view.model_dump_json(by_alias=True).encode(), tag)
