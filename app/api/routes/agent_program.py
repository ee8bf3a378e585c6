"""The agent's program, and that of a group's all-reduce, for VMs whose user data has no room for them.

The calls need no key. The programs contain nothing secret.
"""

from fastapi import APIRouter, Request, Response

from app.agent import program
from app.api.http.etags import not_modified

router = APIRouter(include_in_schema=False)


@router.get("/v1/agent/program")
async def get_agent_program(request: Request) -> Response:
    """Return the program. A VM runs it only if its SHA-256 is the one in the VM's user data."""
    return _served(request, program.source(), program.digest())


@router.get("/v1/agent/all-reduce")
async def get_all_reduce_program(request: Request) -> Response:
    """Return the program of the all-reduce. A VM runs it only if its SHA-256 is the one in the VM's user data."""
    return _served(request, program.all_reduce_source(), program.all_reduce_digest())


def _served(request: Request, source: bytes, digest: str) -> Response:
    etag = f'"{digest}"'
    headers = {"ETag": etag, "Cache-Control": "public, max-age=300", "X-Content-Type-Options": "nosniff"}
    same = not_modified(request, etag)
    if same is not None:
        same.headers.update(headers)
        return same
    return Response(source, media_type="text/x-python; charset=utf-8", headers=headers)
