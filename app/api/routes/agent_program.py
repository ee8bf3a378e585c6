"""The agent's program, for VMs whose user data has no room for it. It needs no key and contains nothing secret."""

from fastapi import APIRouter, Request, Response

from app.agent import program
from app.api.http.etags import not_modified

router = APIRouter(include_in_schema=False)


@router.get("/v1/agent/program")
async def get_agent_program(request: Request) -> Response:
    """Return the program. A VM runs it only if its SHA-256 is the one in the VM's user data."""
    etag = f'"{program.digest()}"'
    headers = {"ETag": etag, "Cache-Control": "public, max-age=300", "X-Content-Type-Options": "nosniff"}
    same = not_modified(request, etag)
    if same is not None:
        same.headers.update(headers)
        return same
    return Response(program.source(), media_type="text/x-python; charset=utf-8", headers=headers)
