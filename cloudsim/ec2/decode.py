"""Query parameters to Python values, driven by botocore's own service model."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from botocore.model import ListShape, Shape, StructureShape

from cloudsim.ec2.errors import AwsError, bad_value

Node = Any
"""A string, or a dict of nodes by name part."""
Decode = Callable[[Node, str], Any]
"""Node and its dotted name to a value. Raises AwsError."""


def _tree(pairs: Iterable[tuple[str, str]]) -> dict[str, Node]:
    root: dict[str, Node] = {}
    for name, value in pairs:
        node = root
        *parents, leaf = name.split(".")
        for part in parents:
            child = node.setdefault(part, {})
            if not isinstance(child, dict):
                raise AwsError("InvalidParameterCombination", f"{name} is both a value and a structure")
            node = child
        node[leaf] = value
    return root


def _text(node: Node, name: str) -> str:
    if isinstance(node, dict):
        raise AwsError("UnknownParameter", f"The parameter {name}.{next(iter(node))} is not recognized")
    return str(node)


def _integer(node: Node, name: str) -> int:
    text = _text(node, name)
    try:
        return int(text)
    except ValueError:
        raise bad_value(text, name, "Not an integer.") from None


def _number(node: Node, name: str) -> float:
    text = _text(node, name)
    try:
        return float(text)
    except ValueError:
        raise bad_value(text, name, "Not a number.") from None


def _boolean(node: Node, name: str) -> bool:
    text = _text(node, name)
    if text not in ("true", "false"):
        raise bad_value(text, name, "Not a boolean.")
    return text == "true"


def _timestamp(node: Node, name: str) -> float:
    text = _text(node, name)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise bad_value(text, name, "Not a timestamp.") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _blob(node: Node, name: str) -> bytes:
    try:
        return base64.b64decode(_text(node, name), validate=True)
    except binascii.Error:
        raise bad_value("...", name, "Not base64.") from None


_SCALARS: dict[str, Decode] = {
    "string": _text,
    "integer": _integer,
    "long": _integer,
    "float": _number,
    "double": _number,
    "boolean": _boolean,
    "timestamp": _timestamp,
    "blob": _blob,
}


class QueryDecoder:
    """Decoders per shape, made when first needed. `ec2`: the EC2 dialect, else the plain query protocol.

    They differ in two points: EC2 names are capitalised or given as queryName, and its lists are flat
    (`Name.1`) where query says `Name.member.1`.
    """

    def __init__(self, *, ec2: bool) -> None:
        self._ec2 = ec2
        self._made: dict[str, Decode] = {}

    def decode(self, shape: StructureShape | None, pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
        """Values by member name. Raises AwsError, UnknownParameter among them."""
        tree = _tree(pairs)
        tree.pop("Action", None)
        tree.pop("Version", None)
        if shape is None:
            return {}
        values: dict[str, Any] = self._for(shape)(tree, "")
        missing = [name for name in shape.required_members if name not in values]
        if missing:
            raise AwsError("MissingParameter", f"The request must contain the parameter {missing[0]}")
        return values

    def _for(self, shape: Shape) -> Decode:
        if shape.type_name in _SCALARS:
            return _SCALARS[shape.type_name]
        if shape.name not in self._made:
            self._made[shape.name] = self._make(shape)
        return self._made[shape.name]

    def _make(self, shape: Shape) -> Decode:
        if isinstance(shape, StructureShape):
            return self._structure(shape)
        if isinstance(shape, ListShape):
            return self._list(shape)
        raise AwsError("InternalError", f"no decoder for {shape.type_name}")

    def _structure(self, shape: StructureShape) -> Decode:
        members = {self._wire_name(name, member): (name, member) for name, member in shape.members.items()}

        def decode(node: Node, path: str) -> dict[str, Any]:
            if not isinstance(node, dict):
                raise bad_value(node, path, "A structure is expected.")
            values = {}
            for wire_name, child in node.items():
                full = f"{path}.{wire_name}" if path else wire_name
                if wire_name not in members:
                    raise AwsError("UnknownParameter", f"The parameter {full} is not recognized")
                name, member = members[wire_name]
                values[name] = self._for(member)(child, full)
            return values

        return decode

    def _list(self, shape: ListShape) -> Decode:
        def decode(node: Node, path: str) -> list[Any]:
            items = node if self._ec2 or not isinstance(node, dict) else node.get("member", {})
            if not isinstance(items, dict) or not all(number.isdigit() for number in items):
                raise bad_value(items, path, "A numbered list is expected.")
            ordered = sorted(items.items(), key=lambda item: int(item[0]))
            return [self._for(shape.member)(child, f"{path}.{number}") for number, child in ordered]

        return decode

    def _wire_name(self, name: str, member: Shape) -> str:
        serialization = member.serialization
        if not self._ec2:
            return str(serialization.get("name", name))
        if "queryName" in serialization:
            return str(serialization["queryName"])
        wire_name = str(serialization.get("name", name))
        return wire_name[0].upper() + wire_name[1:]
