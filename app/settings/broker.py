"""What producer and workers must agree on about the broker. Messages are hints and may be lost."""

from typing import Any

QUEUE = "gpulease"
STEP_TASK = "workers.step_lease"
"""Takes one argument: the lease id."""
HINT_SECONDS = 30
"""A hint older than this is worth nothing: a sweep has found the lease by then."""

SOCKET_SECONDS = 2.0


def celery_broker_options(broker_url: str) -> dict[str, Any]:
    """Celery's configuration as far as both sides share it."""
    return {
        "broker_url": broker_url,
        "task_default_queue": QUEUE,
        "task_ignore_result": True,
        "task_serializer": "json",
        "accept_content": ["json"],
        "broker_connection_retry_on_startup": True,
        "broker_transport_options": {
            "socket_timeout": SOCKET_SECONDS,
            "socket_connect_timeout": SOCKET_SECONDS,
            "socket_keepalive": True,
            "retry_on_timeout": False,
            "max_retries": 0,
        },
    }
