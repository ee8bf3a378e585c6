"""Import rules that a list of modules in pyproject.toml could not state for modules yet to come."""

import sys

from tests.house.sources import ROOT, imports_below


def test_the_domain_needs_the_standard_library_alone() -> None:
    foreign = [
        (file, name)
        for file, name in imports_below("app/domain")
        if name.split(".")[0] not in sys.stdlib_module_names and not name.startswith("app.domain") and name != "app"
    ]
    assert not foreign


def test_the_domain_has_no_clock_no_randomness_and_no_log() -> None:
    banned = {"time", "random", "secrets", "logging", "os"}
    assert not [(file, name) for file, name in imports_below("app/domain") if name in banned]


SHARED = "app.request_deadlines"
"""The one module that the command line shares with the server: `gpulease mcp --http` is a server too."""


def test_the_command_line_is_a_plain_client() -> None:
    inside = [
        (file, name)
        for file, name in imports_below("app/cli")
        if name.split(".")[0] in {"app", "workers", "cloudsim"}
        and not name.startswith(("app.cli", SHARED))
        and name != "app"
    ]
    assert not inside


def test_what_the_command_line_shares_needs_the_standard_library_alone() -> None:
    names = [name for file, name in imports_below("app") if file == SHARED.replace(".", "/") + ".py"]
    assert names
    assert not [name for name in names if name.split(".")[0] not in sys.stdlib_module_names]


def test_adapters_never_import_one_another() -> None:
    folder = ROOT / "workers" / "providers"
    packages = {path.name for path in folder.iterdir() if path.is_dir() and (path / "__init__.py").exists()}
    adapters = packages - {"common"}
    crossing = [
        (file, name)
        for adapter in adapters
        for file, name in imports_below(f"workers/providers/{adapter}")
        for other in adapters - {adapter}
        if name == f"workers.providers.{other}" or name.startswith(f"workers.providers.{other}.")
    ]
    assert not crossing


def test_cloud_sdks_are_imported_by_adapters_alone() -> None:
    sdks = {"boto3", "botocore", "google", "azure", "msrestazure"}
    outside = [
        (file, name)
        for folder in ("app", "workers")
        for file, name in imports_below(folder)
        if name.split(".")[0] in sdks and not file.startswith("workers/providers/")
    ]
    assert not outside
