"""The driver-ready image of a region: AWS's Deep Learning Base AMI, or the image that the account pins.

The adapter looks up the newest image at run time (SSM public parameter, then by name), so this module has no image id.
"""

from typing import TYPE_CHECKING

from app.domain.offerings import Driver
from workers.providers.aws.calls import part
from workers.providers.aws.errors import translated
from workers.providers.common.images import driver_version
from workers.providers.errors import InvalidSpec, NotFound
from workers.providers.types import Image

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_ec2.type_defs import FilterTypeDef, ImageTypeDef
    from mypy_boto3_ssm import SSMClient

PARAMETER = "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id"
NAMES = (
    "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 24.04) *",
    "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 22.04) *",
)
DRIVERS = frozenset({Driver.NVIDIA})
"""The drivers for which AWS has a public driver-ready image without a licence fee."""
_AMI = "ami-"


def resolve(ec2: "EC2Client", ssm: "SSMClient", pin: str | None) -> Image:
    """`pin` is an AMI id or the name of an SSM parameter. Raises InvalidSpec when no such image exists."""
    if pin is not None and pin.startswith(_AMI):
        return _described(ec2, pin)
    image_id = _parameter(ssm, pin or PARAMETER)
    if image_id is not None:
        return _described(ec2, image_id)
    if pin is not None:
        msg = f"SSM parameter {pin} does not exist: check `image` of this account"
        raise InvalidSpec(msg, code="ParameterNotFound")
    return _newest(ec2)


def _parameter(ssm: "SSMClient", name: str) -> str | None:
    try:
        with translated():
            return str(part(ssm.get_parameter(Name=name), "Parameter")["Value"])
    except NotFound:
        return None


def _described(ec2: "EC2Client", image_id: str) -> Image:
    with translated():
        images = part(ec2.describe_images(ImageIds=[image_id]), "Images")
        if images:
            return _image(images[0])
    msg = f"image {image_id} does not exist here or is not shared with this account"
    raise InvalidSpec(msg, code="InvalidAMIID.NotFound")


def _newest(ec2: "EC2Client") -> Image:
    """The newest image of the first name pattern that matches any. Image names end with their date."""
    for name in NAMES:
        filters: list[FilterTypeDef] = [{"Name": "name", "Values": [name]}, {"Name": "state", "Values": ["available"]}]
        with translated():
            images = part(ec2.describe_images(Owners=["amazon"], Filters=filters), "Images")
            if images:
                return _image(max(images, key=lambda image: image["CreationDate"]))
    msg = f"no image is named {NAMES[0]!r} here: pin one with `image` of this account"
    raise InvalidSpec(msg, code="InvalidAMIID.NotFound")


def _image(image: "ImageTypeDef") -> Image:
    sizes = [mapping.get("Ebs", {}).get("VolumeSize", 0) for mapping in image.get("BlockDeviceMappings", [])]
    return Image(
        id=image["ImageId"],
        name=image.get("Name", image["ImageId"]),
        root_device=image.get("RootDeviceName"),
        disk_gib=max(sizes, default=0),
        driver_version=driver_version(image.get("Name"), image.get("Description")),
    )
