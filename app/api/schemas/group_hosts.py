"""The hosts of a group in responses: for users, and for the VM of a member."""

from typing import Annotated

from pydantic import Field

from app.api.schemas.base import View
from app.domain.groups.groups import GroupState
from app.services.groups.groups import GroupHosts


class GroupHost(View):
    """The VM of an active member."""

    rank: int
    lease_id: str
    name: str
    private_ip: str | None
    public_ip: str | None
    ssh_user: str | None
    ssh_port: int | None
    gpus: Annotated[int | None, Field(description="Null: unknown.")]


class GroupHostList(View):
    """The hosts of a group by rank."""

    group_id: str
    name: str
    state: GroupState
    size: int
    complete: Annotated[bool, Field(description="The group is formed, and each member has an address.")]
    master_addr: Annotated[str | None, Field(description="The address of the first host. Null: there is no host yet.")]
    master_port: int
    hosts: list[GroupHost]


class NodeHost(View):
    """A node of the group that the calling VM belongs to."""

    rank: Annotated[int, Field(description="From 0 without a gap.")]
    private_ip: Annotated[str, Field(description="The address at which the other members reach the node.")]
    gpus: int | None


class NodeHosts(View):
    """The group as one of its VMs sees it. Ranks are numbered without a gap among the hosts."""

    group_id: str
    rank: Annotated[int | None, Field(description="The calling VM's position. Null: it is not among the hosts yet.")]
    size: Annotated[int, Field(description="The number of hosts when `complete`, else the size of the group.")]
    complete: Annotated[bool, Field(description="The group is formed, and each member has an address.")]
    master_addr: str | None
    master_port: int
    hosts: list[NodeHost]


def hosts_view(group: GroupHosts) -> GroupHostList:
    """Converts the hosts for users."""
    names = ("rank", "lease_id", "name", "private_ip", "public_ip", "ssh_user", "ssh_port", "gpus")
    hosts = [GroupHost(**{name: getattr(host, name) for name in names}) for host in group.hosts]
    about = ("group_id", "name", "state", "size", "complete", "master_addr", "master_port")
    return GroupHostList(**{name: getattr(group, name) for name in about}, hosts=hosts)


def node_hosts_view(group: GroupHosts, lease_id: str) -> NodeHosts:
    """Converts the hosts for the VM of a member."""
    hosts = [NodeHost(rank=n, private_ip=host.address, gpus=host.gpus) for n, host in enumerate(group.hosts)]
    return NodeHosts(
        group_id=group.group_id,
        rank=group.rank_of(lease_id),
        size=len(hosts) if group.complete else group.size,
        complete=group.complete,
        master_addr=group.master_addr,
        master_port=group.master_port,
        hosts=hosts,
    )
