"""Runs the FinOps Foundation's validator on a FOCUS export: `python -m tools.validate_focus focus-2026-11.csv`.

The validator is installed into an environment of its own (`--folder`), since it pins other versions than this program.
It needs Python 3.12 or newer (`--python`) and a package index. Prints the rules that fail; exits with 1 when one does.
"""

import argparse
import subprocess
import sys
from pathlib import Path

PACKAGES = ("focus-validator==2.2.1", "pyarrow<18")
"""pyarrow 18 and newer need another numpy than the validator pins."""
CRITERIA = (
    "ACCOUNT_NAMING_SUPPORTED",
    "AVAILABILITY_ZONE_SUPPORTED",
    "BILLING_BASED_ON_PROVISIONED_RESOURCES_SUPPORTED",
    "MULTIPLE_BILLING_ACCOUNT_TYPES_SUPPORTED",
    "MULTIPLE_PRICING_CATEGORIES_SUPPORTED",
    "MULTIPLE_SUB_ACCOUNT_TYPES_SUPPORTED",
    "NEGOTIATED_PRICING_SUPPORTED",
    "PUBLIC_PRICE_LIST_SUPPORTED",
    "REGION_SUPPORTED",
    "RESOURCE_TYPE_ASSIGNMENT_SUPPORTED",
    "SUB_ACCOUNT_SUPPORTED",
    "TAGGING_SUPPORTED",
    "UNIT_PRICING_SUPPORTED",
    "USAGE_MEASUREMENT_SUPPORTED",
)
"""What gpulease supports: rules of other columns do not apply."""
EXPECTED = frozenset({"InvoiceId-C-005-C"})
"""A branch of a rule with two: without invoices, InvoiceId is null, and its other branch holds."""


def main() -> int:
    """Install what is missing, validate, and print."""
    arguments = _arguments()
    folder: Path = arguments.folder
    if not (folder / "bin" / "focus-validator").exists():
        subprocess.run([arguments.python, "-m", "venv", folder], check=True)
        subprocess.run([folder / "bin" / "python", "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    found = _validate(folder, arguments.export.resolve())
    if "Total:" not in found:
        sys.stdout.write(found)
        return 1
    failed = [line for line in found.splitlines() if line.startswith("❌") and not EXPECTED & {_rule(line)}]
    totals = [line for line in found.splitlines() if line.startswith("Total:")]
    sys.stdout.write("\n".join([*failed, *totals, ""]))
    return 1 if failed else 0


def _rule(line: str) -> str:
    return line.removeprefix("❌").strip().partition(":")[0]


def _validate(folder: Path, export: Path) -> str:
    """The validator reads a file of its package relative to the current directory."""
    (package,) = folder.glob("lib/python*/site-packages")
    command: list[str | Path] = [folder / "bin" / "focus-validator", "--data-file", export, "--validate-version", "1.2"]
    options = ["--block-download", "--focus-dataset", "CostAndUsage", "--applicability-criteria", ",".join(CRITERIA)]
    done = subprocess.run([*command, *options], cwd=package, text=True, capture_output=True, check=False)
    return done.stdout + done.stderr


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.validate_focus", description=__doc__)
    parser.add_argument("export", type=Path, help="a file of GET /v1/costs/focus")
    parser.add_argument("--python", default="python3.12", help="an interpreter of Python 3.12 or newer")
    parser.add_argument("--folder", type=Path, default=Path(".gpulease/focus-validator"), help="where it is installed")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
