"""`python -m tests.mutation`: the share of mutants that the tests of the rules notice, after `mutmut export-cicd-stats`."""

import json
import sys

from tests.harness.databases import ROOT

LEAST = 0.85
STATS = ROOT / "mutants" / "mutmut-cicd-stats.json"


def main() -> int:
    """0 when enough are noticed. One that no test even runs counts as unnoticed."""
    counted = json.loads(STATS.read_text(encoding="utf-8"))
    return verdict(counted["killed"] + counted["timeout"], counted["total"])


def verdict(noticed: int, made: int) -> int:
    """Tells the share, and whether it is enough as an exit code."""
    sys.stdout.write(f"{noticed} of {made} mutants noticed: {noticed / made:.1%} (at least {LEAST:.0%} have to be)\n")
    return 0 if noticed / made >= LEAST else 1


if __name__ == "__main__":
    sys.exit(main())
