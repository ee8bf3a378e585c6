"""One simulated account at each cloud, and what to ask for there."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cloudsim.testing import Control
from tests.workers.fleet import ACCOUNT
from tests.workers.providers.gcp.accounts import EMAIL, PROJECT, key_file

_SUBNET = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/n/subnets/gpus"


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudSample:
    """A region of a cloud and an instance type that is offered there with one GPU."""

    provider: str
    region: str
    zone: str
    instance_type: str
    gpu_model: str

    @property
    def request(self) -> dict[str, Any]:
        """The part of a lease request that names the instance type."""
        gpu = {"model": self.gpu_model, "count": 1, "memory_gib": None}
        return {"gpu": gpu, "instance_types": [self.instance_type]}

    def write_config(self, folder: Path, sim: Control) -> Path:
        """The accounts file of a worker with this account alone."""
        own = {
            "aws": "",
            "gcp": f'project = "{PROJECT}"\ncredentials_file = "{key_file(folder, sim.url, EMAIL)}"\n',
            "azure": 'subscription_id = "00000000-0000-4000-8000-000000000001"\nresource_group = "gpulease"\n'
            f'subnet_ids = {{ {self.region} = "{_SUBNET}" }}\n',
        }
        config = folder / f"{self.provider}.toml"
        config.write_text(
            f'[[accounts]]\nprovider = "{self.provider}"\nname = "{ACCOUNT}"\nregions = ["{self.region}"]\n'
            f'endpoint_url = "{sim.url}"\n{own[self.provider]}'
        )
        return config

    def plant_copy(self, sim: Control, tags: dict[str, str]) -> str:
        """A VM that somebody made with these tags, as the cloud's console does; its id at the cloud."""
        place = {"region": self.region, "zone": self.zone, "instance_type": self.instance_type}
        (vm_id,) = sim.plant(provider=self.provider, **place, tags=tags)
        return vm_id


AWS = CloudSample(provider="aws", region="us-east-1", zone="us-east-1a", instance_type="g5.xlarge", gpu_model="A10G")
GCP = CloudSample(
    provider="gcp", region="us-central1", zone="us-central1-a", instance_type="g2-standard-4", gpu_model="L4"
)
AZURE = CloudSample(
    provider="azure", region="eastus", zone="eastus-1", instance_type="Standard_NC4as_T4_v3", gpu_model="T4"
)
CLOUDS = (AWS, GCP, AZURE)
