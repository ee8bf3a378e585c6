"""Reads FOCUS files line by line: CSV, gzipped CSV and Parquet. The memory does not grow with the file."""

import csv
import gzip
import hashlib
import io
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO

from app.domain.invoices import OPTIONAL, REQUIRED

Row = Mapping[str, Any]

_GZIP, _PARQUET = b"\x1f\x8b", b"PAR1"
_BLOCK = 1 << 20
_LONGEST_FIELD = 1 << 24
"""Characters. Tags are long, and Python's own limit is 128 KiB."""
_BATCH = 5000
_HEADER = 1


class InvalidFile(Exception):
    """A file cannot be imported. The message names the file, the line and the column."""

    def __init__(self, path: Path, line: int, detail: str) -> None:
        super().__init__(f"{path}, line {line}: {detail}")


def fingerprint(paths: Sequence[Path]) -> bytes:
    """SHA-256 of a file without its compression. Of several files: of their hashes, in any order.

    Raises InvalidFile for a file that cannot be read, and for two files with the same content.
    """
    hashes: dict[bytes, Path] = {}
    for path in paths:
        content = _hash(path)
        if content in hashes:
            detail = f"has the same content as {hashes[content]}: name each part of an export once"
            raise InvalidFile(path, _HEADER, detail)
        hashes[content] = path
    return next(iter(hashes)) if len(hashes) == 1 else hashlib.sha256(b"".join(sorted(hashes))).digest()


def _hash(path: Path) -> bytes:
    try:
        with closing(_binary(path, zipped=_start(path).startswith(_GZIP))) as stream:
            made = hashlib.sha256()
            while block := stream.read(_BLOCK):
                made.update(block)
            return made.digest()
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InvalidFile(path, _HEADER, f"cannot be read: {error}") from None


def _start(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(len(_PARQUET))


def read(path: Path, columns: Iterable[str] = ()) -> tuple[frozenset[str], Iterator[tuple[int, Row]]]:
    """The names of all columns, and the number and the values of each line; names are in lower case.

    `columns`: what to read besides the usual ones. The header of a CSV file is line 1. Rows of Parquet count from 1.
    Raises InvalidFile, also during the iteration.
    """
    needed = frozenset(name.lower() for name in (*REQUIRED, *OPTIONAL, *columns))
    start = _start(path)
    if start == _PARQUET:
        return _parquet(path, needed)
    return _csv(path, needed, zipped=start.startswith(_GZIP))


def _csv(path: Path, needed: frozenset[str], *, zipped: bool) -> tuple[frozenset[str], Iterator[tuple[int, Row]]]:
    lines = _lines(path, zipped=zipped)
    _, header = next(lines, (_HEADER, []))
    names = [name.strip().lower() for name in header]
    for name in needed:
        if names.count(name) > 1:
            raise InvalidFile(path, _HEADER, f"the column {name} stands there twice")
    places = [(name, place) for place, name in enumerate(names) if name in needed]
    return frozenset(names), _rows(path, lines, places, len(names))


def _rows(
    path: Path, lines: Iterator[tuple[int, list[str]]], places: Sequence[tuple[str, int]], width: int
) -> Iterator[tuple[int, Row]]:
    for line, values in lines:
        if len(values) != width:
            if not values:
                continue
            raise InvalidFile(path, line, f"has {len(values)} values, and the header has {width}")
        yield line, {name: values[place] for name, place in places}


def _lines(path: Path, *, zipped: bool) -> Iterator[tuple[int, list[str]]]:
    """Each record with the number of its last line."""
    csv.field_size_limit(_LONGEST_FIELD)
    line = 0
    with closing(_binary(path, zipped=zipped)) as stream, io.TextIOWrapper(stream, "utf-8-sig", newline="") as text:
        reader = csv.reader(text, strict=True)
        try:
            for values in reader:
                line = reader.line_num
                yield line, values
        except csv.Error as error:
            raise InvalidFile(path, line + 1, f"is no CSV: {error}") from None
        except UnicodeDecodeError:
            raise InvalidFile(path, line + 1, "is not UTF-8") from None
        except (EOFError, zlib.error, OSError) as error:
            raise InvalidFile(path, line + 1, f"cannot be read: {error}") from None


def _binary(path: Path, *, zipped: bool) -> BinaryIO:
    if zipped:
        return io.BufferedReader(gzip.open(path), _BLOCK)
    return path.open("rb", _BLOCK)


def _parquet(path: Path, needed: frozenset[str]) -> tuple[frozenset[str], Iterator[tuple[int, Row]]]:
    try:
        from pyarrow import parquet  # noqa: PLC0415 - an extra without types
    except ImportError:
        detail = "is Parquet, which needs the extra `parquet`: pip install 'gpulease[server,parquet]', or export CSV"
        raise InvalidFile(path, _HEADER, detail) from None
    try:
        file = parquet.ParquetFile(path)
    except (OSError, ValueError) as error:
        raise InvalidFile(path, _HEADER, f"cannot be read: {error}") from None
    names = file.schema_arrow.names
    return frozenset(name.lower() for name in names), _batches(path, file, [n for n in names if n.lower() in needed])


def _batches(path: Path, file: Any, names: Sequence[str]) -> Iterator[tuple[int, Row]]:
    line = 0
    try:
        for batch in file.iter_batches(batch_size=_BATCH, columns=list(names)):
            for row in batch.to_pylist():
                line += 1
                yield line, {name.lower(): value for name, value in row.items()}
    except (OSError, ValueError) as error:
        raise InvalidFile(path, line + 1, f"cannot be read: {error}") from None
