import random

from hypothesis import given
from hypothesis import strategies as st

from cloudsim.world import Market, Vm, VmState
from cloudsim.world.vm_index import VmIndex


def vm(seq: int, tags: dict[str, str]) -> Vm:
    return Vm(
        seq=seq,
        provider="aws",
        account="1",
        region="r",
        zone="z",
        id=str(seq),
        name="",
        instance_type="t",
        market=Market.ON_DEMAND,
        image="",
        state=VmState.RUNNING,
        tags=tags,
        token=None,
        token_key=None,
        params_hash="",
        launched_at=0,
        visible_at=0,
        running_at=0,
        ready_at=0,
    )


@given(st.integers(0, 2**32), st.booleans())
def test_the_index_finds_what_a_search_would_find(seed: int, asked_first: bool) -> None:
    rng = random.Random(seed)
    shelf = VmIndex()
    if asked_first:
        assert shelf.with_tag("k", ["a"]) == []
    for seq in range(1, 40):
        shelf.add(vm(seq, rng.choice([{}, {"k": "a"}, {"k": "b"}])))
        some = rng.choice(list(shelf.vms.values()))
        if rng.random() < 0.3:
            shelf.remove(some)
        elif rng.random() < 0.5:
            shelf.retag(some, "k", rng.choice(["a", "b", None]))
    for values in (["a"], ["b"], ["a", "b"], ["c"]):
        expected = sorted(seq for seq, one in shelf.vms.items() if one.tags.get("k") in values)
        assert shelf.with_tag("k", values) == expected
        assert [one.seq for one in shelf.after(10, shelf.with_tag("k", values))] == [n for n in expected if n > 10]
    assert [one.seq for one in shelf.after(0)] == sorted(shelf.vms)
