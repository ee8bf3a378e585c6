from cloudsim.testing import Control
from tests.cloudsim import listing

FLEET = {"Filter.1.Name": "tag:fleet", "Filter.1.Value.1": "big"}


def test_3_000_instances_are_listed_completely_in_launch_order(sim: Control) -> None:
    sim.plant(region="us-west-2", instance_type="g5.xlarge", tags={"fleet": "small"}, count=10)
    planted = sim.plant(region="us-west-2", instance_type="g5.xlarge", tags={"fleet": "big"}, count=3_000)
    pages = list(listing.pages(sim.url, "us-west-2", FLEET))
    assert [len(page) for page in pages] == [1_000] * 3
    assert [vm for page in pages for vm in page] == planted
