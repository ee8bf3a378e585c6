"""The server's processes: `gpulease-server api|worker|inventory|migrate|operator-key|deadman-key|keys|bad-gpus|deadman`."""

from app.server.main import main

__all__ = ["main"]
