"""Credentials that open nothing, and no other source of credentials than these."""

import os

import pytest

pytest.register_assert_rewrite("tests.workers.providers.contract")

ACCESS_KEY = "AKIATESTTESTTESTTEST"
AZURE_TOKEN = "a-token-that-opens-nothing"
SECRET_KEY = "a-secret-that-must-never-be-shown"


@pytest.fixture(autouse=True)
def aws_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": "/nowhere/config",
        "AWS_SHARED_CREDENTIALS_FILE": "/nowhere/credentials",
    }
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in values.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(autouse=True)
def azure_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("AZURE_", "IDENTITY_", "MSI_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AZURE_CLIENT_SECRET", AZURE_TOKEN)
