"""Which database schemas a program can serve: its own, and newer ones, so that a roll-out migrates first."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SchemaRevisions:
    """The migrations that this program knows; `head` is the newest of them."""

    head: str
    known: frozenset[str]

    def is_newer(self, revision: str | None) -> bool:
        """Whether a database at `revision` has a schema that a later version of this program made."""
        return revision is not None and revision not in self.known

    def problem(self, revision: str | None) -> str | None:
        """Why a database at `revision` cannot be served, or None.

        A revision that this program does not know is newer: migrations keep the version before them working.
        """
        if revision is None:
            return f"has no schema, expected {self.head}"
        if revision != self.head and not self.is_newer(revision):
            return f"is at revision {revision}, expected {self.head}"
        return None
