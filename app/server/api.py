"""The API process: uvicorn around the application."""

import os
import socket

import uvicorn
from fastapi import FastAPI

from app.bootstrap import build_api
from app.observability.traces import load_traces
from app.server.limits import BoundedProtocol
from app.services.container import Services
from app.settings import Settings, StartupError
from app.settings.memory import settle_memory

KEEP_ALIVE_SECONDS = 620
"""Longer than load balancers keep an idle connection (nginx and AWS 60 s, Google 600 s): the end that sends closes it.

Else a load balancer sends a request on a connection that is being closed, and answers 502.
"""
SHUTDOWN_SECONDS = 10
BACKLOG = 2048


class Server(uvicorn.Server):
    """uvicorn for an application of ours. It waits at its end for answers under way, and an event stream has no end of its own."""

    def __init__(self, application: FastAPI) -> None:
        super().__init__(
            uvicorn.Config(
                application,
                loop="uvloop",
                http=BoundedProtocol,
                ws="none",
                lifespan="on",
                backlog=BACKLOG,
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=SHUTDOWN_SECONDS,
            )
        )
        self._application = application

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends the streams first."""
        services: Services = self._application.state.services
        services.streams.end()
        await super().shutdown(sockets)


def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT. Raises StartupError for a port that cannot be used.

    `GPULEASE_LISTEN_FD` names an inherited listening socket (several processes behind one port); else the
    address comes from the settings.
    """
    listener = _listener(settings)
    application = build_api(settings, load_traces("gpulease-api"))
    settle_memory()
    Server(application).run(sockets=[listener])


def _listener(settings: Settings) -> socket.socket:
    inherited = os.environ.get("GPULEASE_LISTEN_FD")
    if inherited is not None:
        return socket.socket(fileno=os.dup(int(inherited)))
    try:
        return socket.create_server((settings.host, settings.port), backlog=BACKLOG)
    except OSError as error:
        raise StartupError(
            f"cannot listen on {settings.host}:{settings.port} (GPULEASE_HOST, GPULEASE_PORT): {error.strerror}"
        ) from None
