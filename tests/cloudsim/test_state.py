from pathlib import Path
from typing import Any

from cloudsim.testing import Control, running
from tests.cloudsim.clock import ManualClock
from tests.cloudsim.conftest import AMI_PARAMETER, make_clients
from tests.cloudsim.refusals import refused


def run(ec2: Any, ami: str, **parameters: Any) -> str:
    wanted = {"MinCount": 1, "MaxCount": 1, "ImageId": ami, "InstanceType": "g5.xlarge", **parameters}
    return str(ec2.run_instances(**wanted)["Instances"][0]["InstanceId"])


def test_a_restart_keeps_the_world(tmp_path: Path) -> None:
    clock = ManualClock()
    with running(clock=clock, state=tmp_path / "state") as sim:
        clients = make_clients(sim.url)
        ec2 = clients("ec2")
        ami = clients("ssm").get_parameter(Name=AMI_PARAMETER)["Parameter"]["Value"]
        alive, ended = run(ec2, ami, ClientToken="t"), run(ec2, ami)
        ec2.terminate_instances(InstanceIds=[ended])
        ec2.create_tags(Resources=[alive], Tags=[{"Key": "a", "Value": "1"}])
        sim.capacity(3, zone="us-east-1b")
        sim.quota("L-DB2E81BA", 12)
        sim.spot_prices(2, region="us-east-1")
        sim.credentials(bad=["AKIABAD"])
        sim.offered("us-east-1a", "p5.48xlarge", False)
        sim.fault("RebootInstances", "error", code="Unavailable", times=5)
        before, price = truth(sim), spot_price(ec2)
        close(clients)
    with running(clock=clock, state=tmp_path / "state") as sim:
        assert truth(sim) == before
        clients = make_clients(sim.url)
        ec2 = clients("ec2")
        assert spot_price(ec2) == price
        check_the_rest(sim, ec2, clients("ec2", key="AKIABAD"), ami, alive)
        clock.forward(1)
        assert [vm["state"] for vm in sim.instances()] == ["running", "terminated", "running"]
        close(clients)


def truth(sim: Control) -> tuple[Any, ...]:
    resources = sorted(sim.resources(), key=lambda item: str(item["id"]))
    return sim.instances(), resources, sim.faults()


def spot_price(ec2: Any) -> str:
    (price,) = ec2.describe_spot_price_history(InstanceTypes=["g5.xlarge"], AvailabilityZone="us-east-1a")[
        "SpotPriceHistory"
    ]
    return str(price["SpotPrice"])


def check_the_rest(sim: Control, ec2: Any, bad: Any, ami: str, alive: str) -> None:
    assert run(ec2, ami, ClientToken="t") == alive
    run(ec2, ami)
    with refused("VcpuLimitExceeded"):
        run(ec2, ami)
    with refused("AuthFailure"):
        bad.describe_instances()
    with refused("Unavailable"):
        ec2.reboot_instances(InstanceIds=[alive])
    by_tag = ec2.describe_instances(Filters=[{"Name": "tag:a", "Values": ["1"]}])
    assert by_tag["Reservations"][0]["Instances"][0]["InstanceId"] == alive
    zones = ec2.describe_instance_type_offerings(
        LocationType="availability-zone", Filters=[{"Name": "instance-type", "Values": ["p5.48xlarge"]}]
    )
    assert "us-east-1a" not in {item["Location"] for item in zones["InstanceTypeOfferings"]}


def close(clients: Any) -> None:
    for service in ("ec2", "ssm"):
        clients(service).close()


def test_a_reset_empties_the_file_too(tmp_path: Path) -> None:
    with running(state=tmp_path / "state") as sim:
        sim.plant(region="us-east-1", instance_type="g5.xlarge", count=50)
    with running(state=tmp_path / "state") as sim:
        assert len(sim.instances()) == 50
        sim.reset()
    with running(state=tmp_path / "state") as sim:
        assert sim.instances() == sim.resources() == []
