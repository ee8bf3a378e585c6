"""Python values to AWS's XML, driven by botocore's own service model.

A member that the model does not know cannot be answered (KeyError).
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any
from xml.sax.saxutils import escape

from botocore.model import ListShape, Shape, StructureShape

Encode = Callable[[Any], str]


class EncodedXml(str):
    """Inner XML that is encoded already."""

    __slots__ = ()


@lru_cache(maxsize=1_000)
def iso(moment: float) -> str:
    """`2026-11-20T12:34:56.000Z`, the way EC2 writes times."""
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def _text(value: Any) -> str:
    text = str(value)
    return text if text.isalnum() else escape(text)


def _boolean(value: Any) -> str:
    return "true" if value else "false"


def _blob(value: Any) -> str:
    return base64.b64encode(value).decode()


_SCALARS: dict[str, Encode] = {
    "string": _text,
    "integer": str,
    "long": str,
    "float": str,
    "double": str,
    "boolean": _boolean,
    "timestamp": iso,
    "blob": _blob,
}


class XmlEncoder:
    """Encoders per shape, made when first needed; the same for the EC2 and the query dialect."""

    def __init__(self) -> None:
        self._made: dict[str, Encode] = {}

    def encode(self, shape: Shape, value: Any) -> str:
        """The inner XML of `value`. Members that are None are left out."""
        return self._for(shape)(value)

    def _for(self, shape: Shape) -> Encode:
        if shape.type_name in _SCALARS:
            return _SCALARS[shape.type_name]
        key = f"{shape.name}/{shape.serialization.get('flattened')}"
        if key not in self._made:
            self._made[key] = self._make(shape)
        return self._made[key]

    def _make(self, shape: Shape) -> Encode:
        if isinstance(shape, StructureShape):
            return self._structure(shape)
        if isinstance(shape, ListShape):
            return self._list(shape)
        raise NotImplementedError(f"no encoder for {shape.type_name}")

    def _structure(self, shape: StructureShape) -> Encode:
        members: dict[str, tuple[str, str, Encode]] = {}

        def prepare(name: str) -> tuple[str, str, Encode]:
            member = shape.members[name]
            tag = member.serialization.get("name", name)
            members[name] = (f"<{tag}>", f"</{tag}>", self._for(member))
            return members[name]

        def encode(value: Mapping[str, Any] | EncodedXml) -> str:
            if isinstance(value, EncodedXml):
                return value
            parts = []
            for name, item in value.items():
                if item is not None:
                    opening, closing, inner = members.get(name) or prepare(name)
                    parts.append(opening + inner(item) + closing)
            return "".join(parts)

        return encode

    def _list(self, shape: ListShape) -> Encode:
        tag = shape.member.serialization.get("name", "member")

        def encode(values: list[Any]) -> str:
            inner = self._for(shape.member)
            return "".join([f"<{tag}>{inner(value)}</{tag}>" for value in values])

        return encode
