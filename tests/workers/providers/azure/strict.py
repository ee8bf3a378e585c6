"""Requests and answers read strictly by the SDK's own models: no key that they do not have, none missing, no unknown word.

The SDK itself checks nothing and keeps whatever it is given. Hooked into the transport of an adapter's clients.
"""

import json
import re
import typing
from collections import abc
from datetime import datetime
from enum import Enum
from types import UnionType
from typing import Any

from azure.mgmt.compute import models as compute
from azure.mgmt.compute.models import _models as compute_models
from azure.mgmt.network import models as network
from azure.mgmt.network.models import _models as network_models

from workers.providers.azure.adapter import AzureProvider

MOST_ITEMS = 5
"""Of a long list, so many are read."""

OPEN = {compute.VirtualMachineSizeTypes}
"""Enumerations that the SDK itself calls incomplete."""

_VM = r"Microsoft\.Compute/virtualMachines"
_ONE = r"/[^/?]+$"
SHAPES: list[tuple[str, str, Any, Any]] = [
    # method, end of the path, request, answer (a list: the items of pages)
    ("PUT", _VM + _ONE, compute.VirtualMachine, compute.VirtualMachine),
    ("PATCH", _VM + _ONE, compute.VirtualMachineUpdate, compute.VirtualMachine),
    ("DELETE", _VM + _ONE, None, None),
    ("GET", _VM + _ONE, None, compute.VirtualMachine),
    ("GET", _VM + "$", None, [compute.VirtualMachine]),
    ("GET", r"/instanceView$", None, compute.VirtualMachineInstanceView),
    ("POST", r"/restart$", None, None),
    ("POST", r"/retrieveBootDiagnosticsData$", None, compute.RetrieveBootDiagnosticsDataResult),
    ("GET", r"/skus$", None, [compute.ResourceSku]),
    ("GET", r"/usages$", None, [compute.Usage]),
    ("GET", r"/versions$", None, list[compute.VirtualMachineImageResource]),
    ("GET", r"/skus/[^/]+/versions" + _ONE, None, compute.VirtualMachineImage),
    ("GET", r"/disks$", None, [compute.Disk]),
    ("PUT", r"/disks" + _ONE, compute.Disk, compute.Disk),
    ("GET", r"/disks" + _ONE, None, compute.Disk),
    ("POST", r"/attachDetachDataDisks$", compute.AttachDetachDataDisksRequest, compute.StorageProfile),
    ("PATCH", r"/disks" + _ONE, compute.DiskUpdate, compute.Disk),
    ("DELETE", r"/disks" + _ONE, None, None),
    ("GET", r"/networkInterfaces$", None, [network.NetworkInterface]),
    ("GET", r"/networkInterfaces" + _ONE, None, network.NetworkInterface),
    ("PATCH", r"/networkInterfaces" + _ONE, network.TagsObject, network.NetworkInterface),
    ("DELETE", r"/networkInterfaces" + _ONE, None, None),
    ("GET", r"/publicIPAddresses$", None, [network.PublicIPAddress]),
    ("PATCH", r"/publicIPAddresses" + _ONE, network.TagsObject, network.PublicIPAddress),
    ("DELETE", r"/publicIPAddresses" + _ONE, None, None),
    ("PUT", r"/networkSecurityGroups" + _ONE, network.NetworkSecurityGroup, network.NetworkSecurityGroup),
    ("GET", r"/networkSecurityGroups$", None, [network.NetworkSecurityGroup]),
    ("GET", r"/networkSecurityGroups" + _ONE, None, network.NetworkSecurityGroup),
    ("DELETE", r"/networkSecurityGroups" + _ONE, None, None),
    *(
        shape
        for path, model in (
            ("/applicationSecurityGroups", network.ApplicationSecurityGroup),
            ("/proximityPlacementGroups", compute.ProximityPlacementGroup),
            ("/availabilitySets", compute.AvailabilitySet),
        )
        for shape in (
            ("PUT", path + _ONE, model, model),
            ("GET", path + "$", None, [model]),
            ("GET", path + _ONE, None, model),
            ("DELETE", path + _ONE, None, None),
        )
    ),
]
UNMODELLED = re.compile(r"/subscriptions/[^/]+$|/serialconsole\.log$")


def checked(provider: AzureProvider) -> AzureProvider:
    """The same adapter; whatever it sends and gets is read strictly from now on."""
    clients = provider._group.clients
    transport: Any = clients._arguments()["transport"]
    send = transport.send

    def sending(request: Any, **options: Any) -> Any:
        response = send(request, **options)
        if not UNMODELLED.search(path_of(request)):
            check(request, response)
        return response

    transport.send = sending
    return provider


def path_of(request: Any) -> str:
    return str(request.url).partition("?")[0]


def check(request: Any, response: Any) -> None:
    """Raises AssertionError naming the operation and the key."""
    path = path_of(request)
    found = [shape for shape in SHAPES if shape[0] == request.method and re.search(shape[1], path)]
    assert found, f"nothing is known of {request.method} {path}"
    _, _, wanted, answered = found[0]
    where = f"{request.method} {path.rpartition('/providers/')[2]}"
    sent = request.content if hasattr(request, "content") else request.body
    assert bool(sent) == (wanted is not None), f"{where}: a body is wanted or not"
    if wanted is not None:
        read(json.loads(sent), wanted, f"{where} sends")
    body = response.read() if hasattr(response, "read") else response.body()
    if response.status_code >= 400:
        read_error(json.loads(body), where)
    elif isinstance(answered, list):
        page = json.loads(body)
        assert set(page) <= {"value", "nextLink"}, f"{where}: {set(page)}"
        _read_items(page["value"], answered[0], f"{where} answers")
    else:
        assert bool(body) == (answered is not None), f"{where}: an answer is wanted or not"
        if body:
            read(json.loads(body), answered, f"{where} answers")


def read_error(document: Any, where: str) -> None:
    assert set(document) == {"error"}, where
    assert document["error"].keys() == {"code", "message"}, where


def read(value: Any, kind: Any, path: str) -> None:
    """One value by the type that the SDK's model gives it."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in {typing.Union, UnionType}:
        _read_union(value, arguments, path)
    elif origin is list:
        _read_items(value, arguments[0], path)
    elif origin in {dict, abc.Mapping}:
        assert isinstance(value, dict), f"{path}: no object"
        for key, one in value.items():
            read(one, arguments[1], f"{path}.{key}")
    elif hasattr(kind, "_deserialize"):
        _read_model(value, kind, path)
    elif kind is not Any:
        _read_plain(value, kind, path)


def _read_plain(value: Any, kind: Any, path: str) -> None:
    if typing.get_origin(kind) is typing.Literal:
        assert value in typing.get_args(kind), f"{path}: {value!r} is none of {kind}"
    elif kind is datetime:
        datetime.fromisoformat(value)
    else:
        assert isinstance(value, (int, float) if kind is float else kind), f"{path}: {value!r} is no {kind}"


def _read_items(value: Any, kind: Any, path: str) -> None:
    assert isinstance(value, list), f"{path}: no list"
    for number, one in enumerate(value[:MOST_ITEMS]):
        read(one, kind, f"{path}[{number}]")


def _read_union(value: Any, arguments: tuple[Any, ...], path: str) -> None:
    """An optional value is left out, never null. A word is one of its enumeration, however the SDK leaves that open."""
    kinds = [one for one in arguments if one is not type(None)]
    words = [one for one in kinds if isinstance(one, type) and issubclass(one, Enum)]
    if words and words[0] not in OPEN:
        assert value in {str(word.value) for word in words[0]}, f"{path}: {value!r} is no {words[0].__name__}"
    else:
        read(value, str if words else kinds[0], path)


def _read_model(value: Any, model: Any, path: str) -> None:
    assert isinstance(value, dict), f"{path}: no object"
    fields = model({})._attr_to_rest_field
    hints = _hints(model)
    names = {field._rest_name: hints[attribute] for attribute, field in fields.items()}
    assert value.keys() <= names.keys(), f"{path}: {value.keys() - names.keys()} unknown to {model.__name__}"
    read_only = {field._rest_name for field in fields.values() if field._visibility == ["read"]}
    needed = {name for name, hint in names.items() if type(None) not in typing.get_args(hint)} - read_only
    assert needed <= value.keys(), f"{path}: {needed - value.keys()} missing for {model.__name__}"
    for name, one in value.items():
        read(one, names[name], f"{path}.{name}")


_KNOWN: dict[Any, dict[str, Any]] = {}


def _hints(model: Any) -> dict[str, Any]:
    if model not in _KNOWN:
        package, module = (compute, compute_models) if "mgmt.compute" in model.__module__ else (network, network_models)
        names = {**vars(module), "_models": package}
        _KNOWN[model] = typing.get_type_hints(model, globalns=names, localns={"_models": package})
    return _KNOWN[model]
