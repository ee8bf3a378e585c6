"""GPU models: the spellings that users write for them, and the model that a spelling stands for.

The catalogue names a model without its memory and form factor: `A100` has 40 or 80 GiB. A spelling with a memory size
is a request for at least that memory. A spelling with a form factor (`SXM`, `PCIe`) stands for the model.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Alias:
    """Another spelling of a model. `memory_gib`: the catalogue's memory of each GPU, where the spelling names a size."""

    text: str
    memory_gib: int | None = None


ALIASES: Mapping[str, tuple[Alias, ...]] = MappingProxyType(
    {
        "A10": (Alias("A10-24GB", 24),),
        "A100": (
            Alias("A100-40GB", 40),
            Alias("A100-80GB", 80),
            Alias("A100 SXM"),
            Alias("A100 PCIe"),
            Alias("A100-SXM4-40GB", 40),
            Alias("A100-SXM4-80GB", 80),
            Alias("A100-PCIE-40GB", 40),
            Alias("A100 80GB PCIe", 80),
            Alias("A100 Ultra", 80),
        ),
        "A10G": (Alias("A10G-24GB", 24),),
        "B200": (Alias("B200-180GB", 180), Alias("B200-192GB", 180), Alias("B200 SXM")),
        "B300": (Alias("B300-288GB", 288), Alias("B300 SXM"), Alias("B300 Ultra")),
        "H100": (
            Alias("H100-80GB", 80),
            Alias("H100 80GB HBM3", 80),
            Alias("H100 SXM"),
            Alias("H100 SXM5"),
            Alias("H100-SXM5-80GB", 80),
            Alias("H100 Mega 80GB", 80),
            Alias("H100 NVL", 94),
            Alias("H100-94GB", 94),
        ),
        "H200": (Alias("H200-141GB", 141), Alias("H200 SXM"), Alias("H200 SXM5")),
        "L4": (Alias("L4-24GB", 24),),
        "L40S": (Alias("L40S-48GB", 48),),
        "MI300X": (Alias("MI300X-192GB", 192), Alias("MI300X OAM")),
        "RTX PRO 4500": (Alias("RTX PRO 4500 Blackwell"), Alias("PRO 4500")),
        "RTX PRO 6000": (
            Alias("RTX PRO 6000 Blackwell"),
            Alias("RTX PRO 6000 Blackwell Server Edition"),
            Alias("RTX PRO 6000-96GB", 96),
            Alias("PRO 6000"),
        ),
        "T4": (Alias("T4-16GB", 16),),
        "V100": (
            Alias("V100-16GB", 16),
            Alias("V100-32GB", 32),
            Alias("V100 SXM2"),
            Alias("V100-SXM2-16GB", 16),
            Alias("V100-SXM2-32GB", 32),
        ),
    }
)
"""Spellings by the catalogue's name. Case, separators, and a leading vendor or product line do not matter."""

_ARM64_SYSTEMS = re.compile(r"(^|[^a-z0-9])(a4x|p6e|gb[23]00|gh200)(?![a-z0-9])")
"""Names of systems with Arm CPUs, of their GPUs and of the instance types of EC2, Compute Engine and Azure that have them."""

_CONFIDENTIAL = re.compile(r"(^|_)ncc[0-9]+[a-z]*_")
"""Azure's sizes of confidential VMs with GPUs, such as Standard_NCC40ads_H100_v5."""

_PREFIXES = ("nvidia", "tesla", "amd", "instinct")
_SEPARATORS = re.compile(r"[^a-z0-9]+")
_BRIEF_SIZE = re.compile(r"(?<=[0-9])g(ib)?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuModel:
    """What a spelling stands for. `memory_gib`: the memory of each GPU that it names."""

    name: str
    memory_gib: int | None = None


def resolve(text: str, catalogue: Iterable[str]) -> GpuModel | None:
    """The model of the catalogue that `text` stands for. None: the catalogue has no such model."""
    spellings = _spellings(catalogue)
    return next((spellings[form] for form in _forms(text) if form in spellings), None)


def is_arm64_system(text: str) -> bool:
    """Whether `text` names a GPU or an instance type of a system with Arm CPUs. Such a system needs an arm64 image."""
    return _ARM64_SYSTEMS.search(text.lower().replace("_", "-")) is not None


def is_confidential(text: str) -> bool:
    """Whether `text` names an instance type of confidential VMs. Such a VM needs another security type and image."""
    return _CONFIDENTIAL.search(text.lower()) is not None


def nearest(text: str, catalogue: Iterable[str]) -> str | None:
    """The model of the catalogue with the most similar spelling. None: no spelling is similar."""
    spellings = _spellings(catalogue)
    for form in _forms(text):
        similar = get_close_matches(form, spellings, n=1)
        if similar:
            return spellings[similar[0]].name
    return None


def _spellings(catalogue: Iterable[str]) -> dict[str, GpuModel]:
    """Models by the plain form of each spelling. A name of the catalogue wins over an alias."""
    names = sorted(catalogue)
    aliases = {
        _plain(alias.text): GpuModel(name=name, memory_gib=alias.memory_gib)
        for name in names
        for alias in ALIASES.get(name, ())
    }
    return {**aliases, **{_plain(name): GpuModel(name=name) for name in names}}


def _forms(text: str) -> Iterator[str]:
    """The plain form as written; then with `GB` for `G` and `GiB`."""
    plain = _plain(text)
    yield plain
    if _BRIEF_SIZE.search(plain):
        yield _BRIEF_SIZE.sub("gb", plain)


def _plain(text: str) -> str:
    """Small letters and digits only, without vendor and product line."""
    words = [word for word in _SEPARATORS.split(text.lower()) if word]
    while len(words) > 1 and words[0] in _PREFIXES:
        words.pop(0)
    return "".join(words)
