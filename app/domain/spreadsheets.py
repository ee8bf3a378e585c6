"""Text for cells of CSV files that a spreadsheet opens. Other people choose names and labels."""

import re

FORMULA = r"^(?!-?[0-9]+(\.[0-9]+)?\Z)[=+@\t\r-]"
"""What a spreadsheet runs as a formula: such a start, and no number. Python and PostgreSQL read the pattern alike."""

_FORMULA = re.compile(FORMULA)


def inert_text(text: str) -> str:
    """The text of a cell. A leading apostrophe has a spreadsheet show a formula instead of running it."""
    return f"'{text}" if _FORMULA.match(text) else text
