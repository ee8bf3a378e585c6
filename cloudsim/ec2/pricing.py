"""The Price List Query API: on-demand prices of the instance types sold here, with the terms nobody here buys."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from cloudsim.ec2.call import Call, Result
from cloudsim.ec2.catalog import PROVIDER
from cloudsim.ec2.errors import AwsError
from cloudsim.ec2.paging import page

_PAGE = 100
_PUBLISHED = "2026-07-01T00:00:00Z"
_SYSTEMS = {"Linux": Decimal(1), "Windows": Decimal("1.2")}
"""Operating systems sold, and what each costs of the price of Linux."""
_VOLUMES = {"gp2": Decimal("0.11"), "gp3": Decimal("0.09")}
"""USD for a GiB and month."""
_ADDRESS = Decimal("0.006")
"""USD an hour. These prices are not those of the adapter's list, so that a test can distinguish them."""
_RESERVED = Decimal("0.6")
_LOCAL_ZONES = {"us-west-2": Decimal("1.2")}
"""Regions with a Local Zone, and what its machines cost of the region's price. Both carry the same region code."""


def get_products(call: Call) -> Result:
    """One page of products as JSON texts. Raises AwsError for another service, and for filters that are not simulated."""
    service = call.params.get("ServiceCode")
    if service not in ("AmazonEC2", "AmazonVPC"):
        raise AwsError("InvalidParameterException", "Only the products of AmazonEC2 and AmazonVPC are simulated.")
    filters = {term["Field"]: term["Value"] for term in call.params.get("Filters", []) if term["Type"] == "TERM_MATCH"}
    if len(filters) != len(call.params.get("Filters", [])):
        raise AwsError("InvalidParameterException", "Only filters of type TERM_MATCH are simulated.")
    sold = [
        product
        for product in (*_products(call, filters), *_parts(call))
        if product["serviceCode"] == service
        if all(_facts(product).get(k) == v for k, v in filters.items())
    ]
    page_items, token = page(sold, lambda product: str(product["product"]["sku"]), call, most=_PAGE)
    result: Result = {"FormatVersion": "aws_v1", "PriceList": [json.dumps(product) for product in page_items]}
    return {**result, "NextToken": token} if token else result


def _products(call: Call, filters: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    catalog = call.world.catalogs[PROVIDER]
    for region, zones in catalog.regions.items():
        if filters.get("regionCode", region) != region:
            continue
        here = {name for zone, name in catalog.offered if zone in zones}
        for name in here.intersection([filters["instanceType"]] if "instanceType" in filters else here):
            for system, factor in _SYSTEMS.items():
                yield _product(region, name, system, catalog.offers[zones[0], name].on_demand * factor)
                if region in _LOCAL_ZONES:
                    price = catalog.offers[zones[0], name].on_demand * factor * _LOCAL_ZONES[region]
                    yield _product(region, name, system, price, place="AWS Local Zone")


def _facts(product: Mapping[str, Any]) -> dict[str, Any]:
    """What filters compare."""
    return {**product["product"]["attributes"], "productFamily": product["product"]["productFamily"]}


def _parts(call: Call) -> Iterator[dict[str, Any]]:
    """Volumes and addresses of each region."""
    for region in call.world.catalogs[PROVIDER].regions:
        place = {"regionCode": region, "locationType": "AWS Region"}
        for volume, price in _VOLUMES.items():
            attributes = {**place, "volumeApiName": volume, "usagetype": f"EBS:VolumeUsage.{volume}"}
            yield _part(f"{volume}.{region}", "AmazonEC2", "Storage", attributes, "GB-Mo", price)
        for use in ("InUseAddress", "IdleAddress"):
            attributes = {**place, "group": "VPCPublicIPv4Address", "usagetype": f"PublicIPv4:{use}"}
            yield _part(f"{use}.{region}", "AmazonVPC", "VpcPublicIPv4", attributes, "Hrs", _ADDRESS)


def _part(
    name: str, service: str, family: str, attributes: Mapping[str, str], unit: str, price: Decimal
) -> dict[str, Any]:
    sku = name.replace("-", "").replace(".", "").upper()
    return {
        "product": {"productFamily": family, "attributes": {"servicecode": service, **attributes}, "sku": sku},
        "serviceCode": service,
        "terms": {"OnDemand": _term(sku, "JRTCKXETXF", price, unit)},
        "version": "20260701000000",
        "publicationDate": _PUBLISHED,
    }


def _product(region: str, name: str, system: str, price: Decimal, place: str = "AWS Region") -> dict[str, Any]:
    sku = f"{name}.{system}.{region}.{place[4:].replace(' ', '')}".replace("-", "").replace(".", "").upper()
    attributes = {
        "servicecode": "AmazonEC2",
        "instanceType": name,
        "regionCode": region,
        "operatingSystem": system,
        "tenancy": "Shared",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
        "marketoption": "OnDemand",
        "locationType": place,
        "operation": "RunInstances" if system == "Linux" else "RunInstances:0002",
    }
    return {
        "product": {"productFamily": "Compute Instance", "attributes": attributes, "sku": sku},
        "serviceCode": "AmazonEC2",
        "terms": {
            "OnDemand": _term(sku, "JRTCKXETXF", price),
            "Reserved": _term(sku, "38NPMPTW36", price * _RESERVED),
        },
        "version": "20260701000000",
        "publicationDate": _PUBLISHED,
    }


def _term(sku: str, offer: str, price: Decimal, unit: str = "Hrs") -> dict[str, Any]:
    code = f"{sku}.{offer}"
    rate = f"{code}.6YS6EN2CT7"
    dimension = {
        "unit": unit,
        "endRange": "Inf",
        "beginRange": "0",
        "rateCode": rate,
        "pricePerUnit": {"USD": f"{price:.10f}"},
        "appliesTo": [],
    }
    return {
        code: {
            "priceDimensions": {rate: dimension},
            "sku": sku,
            "offerTermCode": offer,
            "effectiveDate": _PUBLISHED,
            "termAttributes": {},
        }
    }
