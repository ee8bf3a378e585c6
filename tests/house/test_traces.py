"""No tracked file tells where it was written or which package registry was used."""

import re

from tests.house.sources import ROOT, tracked_files

REGISTRIES = re.compile(
    "|".join(
        [
            r"pypi" + r"\.org",
            r"python" + r"hosted\.org",
            r"registry\.npm" + r"js",
            r"--index" + "-url",
            r"--find" + "-links",
        ]
    )
)
PERSONAL_PATHS = re.compile(r"(?<![\w.])/(?:home|root|Users|work)/[\w.-]+")
# the two switches that keep such a line out of the lock files
ALLOWED = re.compile(r"--no-emit-(?:index-url|find-links)")


def hits(pattern: re.Pattern[str]) -> list[str]:
    found = []
    for path in tracked_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{path.relative_to(ROOT)}: {match[0]}" for match in pattern.finditer(ALLOWED.sub("", text))]
    return found


def test_no_registry_is_named() -> None:
    assert not hits(REGISTRIES)


def test_no_path_of_a_person_or_a_machine_is_named() -> None:
    assert not hits(PERSONAL_PATHS)
