"""`gpulease size`: the request, the answer at 80 columns, and the command that it prints."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from tests.cli.conftest import Cli
from tests.cli.fake_api import PLACE, FakeApi

LEASE: dict[str, Any] = {
    "gpu": {"model": "RTX PRO 6000", "count": 4, "memory_gib": 96, "interconnect": "NVLink"},
    "market": "on_demand",
    "ttl_seconds": 5400,
    "disk_gib": 320,
    "tenant_id": None,
}
ANSWER: dict[str, Any] = {
    "task": "inference",
    "precision": "bf16",
    "model": {"parameters": 46_702_792_704, "active_parameters": 12_879_425_536, "layers": 32},
    "bytes": {
        "weights": 93_405_585_408,
        "kv_cache": 536_870_912,
        "gradients": 0,
        "optimizer": 0,
        "activations": 0,
        "overhead": 18_788_491_264,
        "total": 112_730_947_584,
    },
    "assumptions": ["Mixture of experts: all 8 experts are in memory, 2 serve each token, and this goes on and on."],
    "fits": [
        {
            "gpu": "RTX PRO 6000",
            "memory_gib": 96,
            "vendor": "NVIDIA",
            "count": 4,
            "margin_percent": 68.0,
            "interconnect": "NVLink",
        },
        {"gpu": "B300", "memory_gib": 268, "vendor": "NVIDIA", "count": 1, "margin_percent": 3.9, "interconnect": None},
    ],
    "offerings": [
        {**PLACE, "benchmark": {"bf16_tflops_p50": 250.0, "n": 3, "driver_version": "570", "tflops_per_usd": 91.1}}
    ],
    "lease": LEASE,
}


@pytest.fixture(autouse=True)
def answer(api: FakeApi) -> dict[str, Any]:
    api.documents["POST", "/v1/sizings"] = ANSWER
    return ANSWER


def asked(api: FakeApi) -> dict[str, Any]:
    (call,) = api.calls("POST", "/v1/sizings")
    assert isinstance(call.body, dict)
    return call.body


def test_the_answer_is_readable_at_80_columns(cli: Cli) -> None:
    cli.environ["COLUMNS"] = "80"
    result = cli("size", "mixtral-8x7b-v0.1")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    command = next(line for line in lines if line.startswith("gpulease lease create"))
    assert command.endswith(" \\"), "a shell joins it with the next line"
    assert all(cell_len(line) <= 80 for line in lines)
    text = result.stdout
    assert "46.70 billion parameters, 12.88 billion for each token" in text
    assert "93.41 GB" in text
    assert "112.73 GB" in text
    assert "gradients" not in text, "parts of zero bytes are left out"
    assert "not needed" in text
    assert "91.1" in text


def test_the_command_creates_the_lease_of_the_answer(api: FakeApi, cli: Cli) -> None:
    printed = cli("size", "x").stdout
    arguments = shlex.split(printed[printed.index("gpulease lease create") :].replace("\\\n", ""))[1:]
    assert cli(*arguments, "--yes", "--no-ssh-key").exit_code == 0
    body = api.calls("POST", "/v1/leases")[-1].body
    assert isinstance(body, dict)
    assert {name: body[name] for name in ("market", "ttl_seconds", "disk_gib")} == {
        name: LEASE[name] for name in ("market", "ttl_seconds", "disk_gib")
    }
    assert body["gpu"] == LEASE["gpu"]


def test_options_become_the_request(api: FakeApi, cli: Cli) -> None:
    options = ["--task", "lora", "--precision", "int4", "--context", "8192", "--batch", "4", "--lora-rank", "32"]
    assert cli("size", "--parameters", "7b", *options, "--ttl", "2h", "--market", "any").exit_code == 0
    assert asked(api) == {
        "task": "finetuning_lora",
        "parameters": "7b",
        "precision": "int4",
        "context": 8192,
        "batch": 4,
        "lora_rank": 32,
        "ttl_seconds": 7200,
        "market": "any",
    }


@pytest.mark.parametrize("stdin", [False, True])
def test_a_config_is_read_from_a_file_or_standard_input(api: FakeApi, cli: Cli, tmp_path: Path, *, stdin: bool) -> None:
    text = json.dumps({"model_type": "llama", "hidden_size": 4096})
    path = tmp_path / "config.json"
    path.write_text(text)
    result = cli("size", "--config", "-" if stdin else str(path), stdin=text if stdin else None)
    assert result.exit_code == 0, result.output
    assert asked(api)["config"] == {"model_type": "llama", "hidden_size": 4096}


@pytest.mark.parametrize(
    "arguments", [[], ["gpt2", "--parameters", "7b"], ["--config", "/nowhere/config.json"]], ids=str
)
def test_wrong_use_is_refused_before_any_call(api: FakeApi, cli: Cli, arguments: list[str]) -> None:
    assert cli("size", *arguments).exit_code == 2
    assert not api.calls("POST", "/v1/sizings")


def test_programs_get_the_answer_or_the_fits(cli: Cli) -> None:
    assert json.loads(cli("size", "x", "--json").stdout) == ANSWER
    assert len(cli("size", "x", "--csv").stdout.splitlines()) == 1 + 2
