"""The listed VMs of one account in one region, in launch order, with an index per asked-for tag key."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator, Sequence

from cloudsim.world.entities import Vm


def _drop(seqs: list[int], seq: int) -> None:
    at = bisect_right(seqs, seq) - 1
    if at >= 0 and seqs[at] == seq:
        del seqs[at]


class VmIndex:
    """Sorted lists of `Vm.seq`. A tag key is indexed from the first question about it on."""

    def __init__(self) -> None:
        self.vms: dict[int, Vm] = {}
        self._seqs: list[int] = []
        self._tags: dict[str, dict[str, list[int]]] = {}

    def add(self, vm: Vm) -> None:
        """List a VM."""
        self.vms[vm.seq] = vm
        insort(self._seqs, vm.seq)
        for key, by_value in self._tags.items():
            if key in vm.tags:
                insort(by_value.setdefault(vm.tags[key], []), vm.seq)

    def remove(self, vm: Vm) -> None:
        """List it no more; silent when it was not listed."""
        if self.vms.pop(vm.seq, None) is None:
            return
        _drop(self._seqs, vm.seq)
        for key in vm.tags:
            self._unindex(vm, key)

    def retag(self, vm: Vm, key: str, value: str | None) -> None:
        """Set one tag of a VM, or take it away (None), and keep the index true."""
        self._unindex(vm, key)
        if value is None:
            vm.tags.pop(key, None)
            return
        vm.tags[key] = value
        if key in self._tags and vm.seq in self.vms:
            insort(self._tags[key].setdefault(value, []), vm.seq)

    def with_tag(self, key: str, values: Sequence[str]) -> list[int]:
        """Sequence numbers of VMs whose tag `key` has one of `values` (exact), ascending."""
        by_value = self._tags.get(key)
        if by_value is None:
            by_value = self._tags[key] = self._index(key)
        lists = [by_value[value] for value in dict.fromkeys(values) if value in by_value]
        if len(lists) == 1:
            return lists[0]
        return sorted(seq for seqs in lists for seq in seqs)

    def after(self, seq: int, among: list[int] | None = None) -> Iterator[Vm]:
        """VMs launched after the one numbered `seq`, in order; only those `among` when given."""
        seqs = self._seqs if among is None else among
        for at in range(bisect_right(seqs, seq), len(seqs)):
            yield self.vms[seqs[at]]

    def _index(self, key: str) -> dict[str, list[int]]:
        by_value: dict[str, list[int]] = {}
        for seq in self._seqs:
            value = self.vms[seq].tags.get(key)
            if value is not None:
                by_value.setdefault(value, []).append(seq)
        return by_value

    def _unindex(self, vm: Vm, key: str) -> None:
        by_value = self._tags.get(key)
        value = vm.tags.get(key)
        if by_value is None or value is None or value not in by_value:
            return
        _drop(by_value[value], vm.seq)
        if not by_value[value]:
            del by_value[value]
