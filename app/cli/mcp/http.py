"""How `gpulease mcp --http` serves HTTP. Only the extra `mcp` is installed there, so h11 reads the requests."""

import h11
import uvicorn
from mcp.server.mcpserver import MCPServer
from uvicorn.protocols.http.h11_impl import H11Protocol

from app.request_deadlines import RequestDeadlines


class BoundedProtocol(RequestDeadlines, H11Protocol):
    """One connection. h11 itself limits headers to 64 KiB."""

    def handle_events(self) -> None:
        """Called by uvicorn for new bytes, and for bytes of the next request once an answer is complete."""
        super().handle_events()
        if self.conn.their_state is h11.SEND_BODY:
            self.request_begins()
            self.headers_arrived()
            return
        waits = self.conn.their_state is h11.IDLE and bool(self.conn.trailing_data[0])
        if self._in_request or not waits:
            self.request_arrived()
        if waits:
            self.request_begins()


def http_config(server: MCPServer, host: str, port: int) -> uvicorn.Config:
    """The server's tools at `/mcp`, without sessions. Call `uvicorn.Server(...).run()` with it."""
    application = server.streamable_http_app(host=host, stateless_http=True, json_response=True)
    return uvicorn.Config(application, host=host, port=port, http=BoundedProtocol, ws="none", log_level="warning")
