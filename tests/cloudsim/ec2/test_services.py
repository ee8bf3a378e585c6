from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
import httpx
import pytest
from botocore.exceptions import ClientError

from cloudsim.testing import NO_TLS, Control
from tests.cloudsim.conftest import AMI_PARAMETER, ONE_TRY, Clients, Launch
from tests.cloudsim.refusals import refused


def test_the_image_parameters_name_an_ami_of_the_region(sim: Control, clients: Clients) -> None:
    names = [AMI_PARAMETER, AMI_PARAMETER.replace("22.04", "24.04"), "/no/such"]
    values = set()
    for region in ("us-east-1", "eu-west-1"):
        answer = clients("ssm", region).get_parameters(Names=names)
        assert answer["InvalidParameters"] == ["/no/such"]
        values |= {item["Value"] for item in answer["Parameters"]}
    assert len(values) == 4
    with refused("ParameterNotFound"):
        clients("ssm").get_parameter(Name="/no/such")


def test_quotas_are_told_as_they_apply(sim: Control, clients: Clients) -> None:
    sim.settings(default_quota_vcpus=768)
    sim.quota("L-417A185B", 192, region="us-east-1")
    quotas = clients("service-quotas")
    listed = {item["QuotaCode"]: item["Value"] for item in quotas.list_service_quotas(ServiceCode="ec2")["Quotas"]}
    expected = {"L-417A185B": 192, "L-DB2E81BA": 768, "L-7212CCBC": 768, "L-3819A6DF": 768, "L-C4BD4855": 768}
    assert listed == expected
    wanted = {"ServiceCode": "ec2", "QuotaCode": "L-417A185B"}
    assert quotas.get_service_quota(**wanted)["Quota"]["Value"] == 192
    assert quotas.get_aws_default_service_quota(**wanted)["Quota"]["Value"] == 768
    assert clients("service-quotas", "eu-west-1").get_service_quota(**wanted)["Quota"]["Value"] == 768
    sim.quota("L-417A185B", None)
    assert quotas.get_service_quota(**wanted)["Quota"]["Value"] == 768
    for unknown in ({"ServiceCode": "ec2", "QuotaCode": "L-0"}, {"ServiceCode": "s3", "QuotaCode": "L-417A185B"}):
        with refused("NoSuchResourceException"):
            quotas.get_service_quota(**unknown)


def test_quota_pages_join_to_the_whole_list(sim: Control, clients: Clients) -> None:
    pages = clients("service-quotas").get_paginator("list_service_quotas")
    found = [page["Quotas"] for page in pages.paginate(ServiceCode="ec2", PaginationConfig={"PageSize": 2})]
    assert [len(page) for page in found] == [2, 2, 1]


def test_access_keys_say_whose_they_are(sim: Control, clients: Clients) -> None:
    sim.credentials(accounts={"AKIA": "000000000007", "AKIATEST": "000000000008"})
    assert clients("sts").get_caller_identity()["Account"] == "000000000008"
    assert clients("sts", key="AKIAOTHER").get_caller_identity()["Account"] == "000000000007"
    assert clients("sts", key="other").get_caller_identity()["Account"] == "000000000001"


def test_bad_credentials_are_refused_everywhere(sim: Control, clients: Clients) -> None:
    sim.credentials(bad=["AKIATEST"])
    with refused("AuthFailure", 401):
        clients("ec2").describe_instances()
    with refused("AuthFailure"):
        clients("sts").get_caller_identity()
    with refused("AuthFailure"):
        clients("ssm").get_parameter(Name=AMI_PARAMETER)
    clients("ec2", key="AKIAGOOD").describe_instances()
    sim.credentials(bad=[])
    clients("ec2").describe_instances()


def test_an_assumed_role_acts_in_its_own_account(sim: Control, clients: Clients, launch: Launch, ami: str) -> None:
    launch()
    role = "arn:aws:iam::123456789012:role/path/gpulease"
    answer = clients("sts").assume_role(RoleArn=role, RoleSessionName="worker")
    assert answer["AssumedRoleUser"]["Arn"] == "arn:aws:sts::123456789012:assumed-role/gpulease/worker"
    with session_client(sim, answer["Credentials"]) as (sts, ec2):
        assert sts.get_caller_identity()["Arn"] == answer["AssumedRoleUser"]["Arn"]
        assert ec2.describe_instances()["Reservations"] == []
        launch(ec2)
    assert {truth["account"] for truth in sim.instances()} == {"000000000001", "123456789012"}
    with refused("ValidationError"):
        clients("sts").assume_role(RoleArn="arn:aws:iam::1:user/nobody", RoleSessionName="worker")


@contextmanager
def session_client(sim: Control, credentials: dict[str, str]) -> Iterator[tuple[Any, Any]]:
    session = boto3.Session(
        credentials["AccessKeyId"], credentials["SecretAccessKey"], credentials["SessionToken"], "us-east-1"
    )
    made: list[Any] = [session.client(name, endpoint_url=sim.url, config=ONE_TRY) for name in ("sts", "ec2")]
    yield made[0], made[1]
    for client in made:
        client.close()


def test_what_is_not_simulated_says_so(ec2: Any, clients: Clients) -> None:
    with refused("InvalidAction"):
        ec2.stop_instances(InstanceIds=["i-0123456789abcdef0"])
    with refused("InvalidAction"):
        clients("ssm").put_parameter(Name="a", Value="b", Type="String")


def test_an_unknown_region_is_refused(sim: Control, clients: Clients) -> None:
    with pytest.raises(ClientError, match="valid region"):
        clients("ec2", "ap-south-1").describe_instances()


@pytest.mark.parametrize(
    ("content", "headers", "code"),
    [
        (b"", {}, "MissingAction"),
        (b"Action=DescribeInstances&Version=1999-01-01", {}, "MissingAction"),
        (b"Action=DescribeInstances&Version=2016-11-15", {}, "AuthFailure"),
        (b"Action=DescribeInstances&Version=2016-11-15&Colour=red", {"signed": "1"}, "UnknownParameter"),
        (b"Action=DescribeInstances&Version=2016-11-15&MaxResults=ten", {"signed": "1"}, "InvalidParameterValue"),
        (b"Action=DescribeInstances&Version=2016-11-15&DryRun=maybe", {"signed": "1"}, "InvalidParameterValue"),
        (b"Action=DescribeInstances&Version=2016-11-15&InstanceId=i-1", {"signed": "1"}, "InvalidParameterValue"),
        (b"Action=DescribeInstances&Version=2016-11-15&a=%FF%FF", {"signed": "1"}, "UnknownParameter"),
        (b"Action=DescribeInstances&Version=2016-11-15&a=\xff", {"signed": "1"}, "MalformedQueryString"),
        (b"Action=TerminateInstances&Version=2016-11-15", {"signed": "1"}, "MissingParameter"),
        (b"{", {"signed": "1", "x-amz-target": "AmazonSSM.GetParameter"}, "SerializationException"),
        (b'{"Colour": 1}', {"signed": "1", "x-amz-target": "AmazonSSM.GetParameter"}, "ValidationException"),
        (b"{}", {"signed": "1", "x-amz-target": "Other.Thing"}, "UnknownOperationException"),
    ],
)
def test_malformed_requests_are_refused_in_words(
    sim: Control, content: bytes, headers: dict[str, str], code: str
) -> None:
    if headers.pop("signed", None):
        headers["authorization"] = "AWS4-HMAC-SHA256 Credential=AKIA/20261120/us-east-1/ec2/aws4_request, Signature=0"
    answer = httpx.post(sim.url, content=content, headers=headers, trust_env=False, verify=NO_TLS)
    assert 400 <= answer.status_code < 500
    assert code in answer.text
