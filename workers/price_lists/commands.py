"""`gpulease-server prices`: compares prices with a table, or writes the price lists of the adapters."""

import argparse
import sys
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path

from app.settings import StartupError
from workers.price_lists import compare, write


def main(arguments: Sequence[str]) -> int:
    """The command's own exit code; 2 with one line on stderr when the command cannot start."""
    options = _options(arguments)
    try:
        if options.write is not None:
            return write.write(folder=options.write or None, allow_fewer=options.allow_fewer)
        return compare.compare_file(options.file, options.tolerance / 100, of_adapters=options.catalogue)
    except StartupError as error:
        sys.stderr.write(f"gpulease-server prices: {error}\n")
        return 2


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="gpulease-server prices",
        description="Compare the prices and facts of offerings with a table of prices, or write the price lists.",
        epilog=(
            "Exit codes: 0 nothing differs or all lists written, 1 something differs or a list is incomplete, "
            "2 cannot start. docs/prices.md describes the files."
        ),
    )
    parser.add_argument(
        "--write",
        type=_folder,
        nargs="?",
        const="",
        metavar="FOLDER",
        help="read the price list of each provider that has an account, and write it to FOLDER/<provider>.csv "
        "(default: the lists that come with the adapters)",
    )
    parser.add_argument(
        "--allow-fewer", action="store_true", help="with --write: also write a list with fewer prices than before"
    )
    _add_compare(parser)
    options = parser.parse_args(arguments)
    is_compare = hasattr(options, "file")
    if is_compare == (options.write is not None):
        parser.error("give either `compare FILE` or --write")
    if options.allow_fewer and options.write is None:
        parser.error("--allow-fewer needs --write")
    return options


def _add_compare(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(metavar="compare")
    command = commands.add_parser("compare", help="print what differs")
    command.add_argument("file", type=Path, metavar="FILE", help="the table, as CSV")
    command.add_argument(
        "--tolerance",
        type=_percent,
        default=Decimal(15),
        metavar="PERCENT",
        help="what a price may be off (default: 15)",
    )
    command.add_argument(
        "--catalogue", action="store_true", help="compare the lists that come with the adapters; needs no database"
    )


def _folder(text: str) -> Path | str:
    """The empty text stands for the adapters' own lists."""
    if text and not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"{text} is not a folder; create it first")
    return Path(text) if text else text


def _percent(text: str) -> Decimal:
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None
    if not value.is_finite() or value < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no percentage")
    return value
