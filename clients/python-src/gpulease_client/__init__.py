"""Client of the gpulease API: `Client` and `AsyncClient`, errors by code, and the signature check of webhooks."""

from gpulease_client import models, problems, webhooks
from gpulease_client._async.client import AsyncClient
from gpulease_client._sync.client import Client
from gpulease_client.errors import (
    ApiError,
    GpuleaseError,
    GroupEndedError,
    GroupTimeoutError,
    InvalidSignatureError,
    InvalidValueError,
    LeaseEndedError,
    NotConfiguredError,
    UnexpectedResponseError,
    UnreachableError,
    WaitTimeoutError,
)
from gpulease_client.retries import Retries

__all__ = [
    "ApiError",
    "AsyncClient",
    "Client",
    "GpuleaseError",
    "GroupEndedError",
    "GroupTimeoutError",
    "InvalidSignatureError",
    "InvalidValueError",
    "LeaseEndedError",
    "NotConfiguredError",
    "Retries",
    "UnexpectedResponseError",
    "UnreachableError",
    "WaitTimeoutError",
    "models",
    "problems",
    "webhooks",
]
