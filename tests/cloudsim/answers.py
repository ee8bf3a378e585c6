"""Checks raw answers against botocore's own model: nothing in them may be unknown to it."""

import json
from typing import Any
from xml.etree import ElementTree as ET

from botocore.model import ListShape, OperationModel, Shape, StructureShape

ENVELOPE = {"requestId", "ResponseMetadata", "return"}


def _plain(tag: str) -> str:
    return tag.rpartition("}")[2]


def _check_node(node: ET.Element, shape: Shape, path: str) -> None:
    if isinstance(shape, StructureShape):
        wire = {member.serialization.get("name", name): member for name, member in shape.members.items()}
        for child in node:
            name = _plain(child.tag)
            assert name in wire, f"{path}/{name} is unknown to the model"
            _check_node(child, wire[name], f"{path}/{name}")
    elif isinstance(shape, ListShape):
        expected = shape.member.serialization.get("name", "member")
        for child in node:
            assert _plain(child.tag) == expected, f"{path} holds {child.tag}, not {expected}"
            _check_node(child, shape.member, path)
    else:
        assert len(node) == 0, f"{path} should be a value"


def check_xml(body: bytes, operation: OperationModel) -> None:
    root = ET.fromstring(body)  # noqa: S314  our own simulator wrote it
    assert _plain(root.tag) == f"{operation.name}Response"
    payload = root.find(f"{{*}}{operation.name}Result")
    shape = operation.output_shape
    if shape is None:
        return
    node = root if payload is None else payload
    for child in [child for child in node if _plain(child.tag) in ENVELOPE - set(shape.members)]:
        node.remove(child)
    _check_node(node, shape, operation.name)


def _check_value(value: Any, shape: Shape, path: str) -> None:
    if isinstance(shape, StructureShape):
        unknown = set(value) - set(shape.members)
        assert not unknown, f"{path}: {unknown} unknown to the model"
        for name, item in value.items():
            _check_value(item, shape.members[name], f"{path}/{name}")
    elif isinstance(shape, ListShape):
        for item in value:
            _check_value(item, shape.member, path)


def check(operation_model: OperationModel, response_dict: dict[str, Any], **_: Any) -> None:
    """A handler for botocore's event `before-parse`."""
    if response_dict["status_code"] >= 300:
        return
    if "json" in response_dict["headers"]["content-type"]:
        assert operation_model.output_shape is not None
        _check_value(json.loads(response_dict["body"]), operation_model.output_shape, operation_model.name)
    else:
        check_xml(response_dict["body"], operation_model)
