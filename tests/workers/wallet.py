"""AWS credentials that change under a running program, as the SDK finds them."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

OURS, RENEWED, THEIRS = "AKIASIMULATED0000001", "AKIASIMULATED0000002", "AKIAEMPTY00000000001"
"""Access keys. cloudsim takes the third one for another account's."""


class Wallet:
    """The credentials that the SDK finds. It asks for them anew with each request, as they seem about to expire."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._file = folder / "credentials.json"
        config = folder / "aws-config"
        config.write_text(f"[default]\ncredential_process = cat {self._file}\n")
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
        monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
        self.put(OURS)

    def put(self, access_key: str) -> None:
        """The next request is signed with this key."""
        expires = datetime.now(UTC) + timedelta(minutes=5)  # noqa: TID251  the SDK compares it with the host's clock
        credentials = {
            "Version": 1,
            "AccessKeyId": access_key,
            "SecretAccessKey": "simulated",
            "SessionToken": "t",
            "Expiration": expires.isoformat(),
        }
        fresh = self._file.with_suffix(".new")
        fresh.write_text(json.dumps(credentials))
        fresh.rename(self._file)
