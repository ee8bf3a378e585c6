"""Accounts at a simulated or prepared Compute Engine, with service-account keys that open nothing else."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.harness.cached_settings import read_settings
from workers.providers.gcp.adapter import GcpProvider
from workers.providers.gcp.settings import GcpAccount

REGION = "us-central1"
ZONE = "us-central1-a"
PROJECT = "sim-project"
EMAIL = "gpulease@sim-project.example"


@cache
def private_key() -> str:
    """Short, so that it is made fast."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=1024)  # noqa: S505  it protects nothing
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def key_file(folder: Path, url: str, email: str = EMAIL) -> str:
    """A service account's key file whose tokens come from `url`."""
    path = folder / f"{email}.json"
    key = {
        "type": "service_account",
        "project_id": PROJECT,
        "private_key_id": "k1",
        "private_key": private_key(),
        "client_email": email,
        "token_uri": f"{url}/gce/token",
    }
    path.write_text(json.dumps(key))
    return str(path)


def account(url: str, credentials_file: str | None, **more: Any) -> GcpAccount:
    return GcpAccount(
        provider="gcp",
        name="sim-gcp",
        project=PROJECT,
        regions=(REGION,),
        endpoint_url=url,
        credentials_file=credentials_file,
        **more,
    )


def provider(url: str, folder: Path, call_timeout: float = 60.0, email: str = EMAIL, **more: Any) -> GcpProvider:
    return GcpProvider(account(url, key_file(folder, url, email), **more), read_settings(call_timeout=call_timeout))
