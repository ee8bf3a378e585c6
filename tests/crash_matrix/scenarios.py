"""What happens to leases, so that every point of the protocol is reached; each with leases of one cloud."""

from collections.abc import Mapping
from contextlib import ExitStack

from app.domain.tags import INSTALLATION
from app.local.waiting import wait_until
from tests.crash_matrix.group import ACCOUNTS, ENDED, POLL, REGIONS, STUCK_SECONDS, TYPES, Arm, Group, Play
from tests.crash_matrix.volume_scenarios import disks_behind_our_back, mounted, mounted_badly
from tests.e2e.cloud import AWS
from tests.e2e.truth import own_id

LAUNCH: Mapping[str, str] = {
    "aws": "RunInstances",
    "gcp": "instances.insert",
    "azure": "VirtualMachines.CreateOrUpdate",
}
BATCHES: Mapping[str, str] = {"aws": "RunInstances", "gcp": "instances.bulkInsert"}
"""The calls that launch several VMs. Azure has none."""
CHANGES: Mapping[str, tuple[str, ...]] = {
    "aws": ("RebootInstances", "CreateTags", "TerminateInstances"),
    "gcp": ("instances.reset", "instances.setLabels", "instances.delete"),
    "azure": ("VirtualMachines.Restart", "VirtualMachines.Update", "VirtualMachines.Delete"),
}
REBOOT_RIGHTS: Mapping[str, str] = {
    "aws": "ec2:RebootInstances",
    "gcp": "compute.instances.reset",
    "azure": "Microsoft.Compute/virtualMachines/restart/action",
}
FIREWALL_ENDS: Mapping[str, str] = {
    "aws": "DeleteSecurityGroup",
    "gcp": "firewalls.delete",
    "azure": "NetworkSecurityGroups.Delete",
}
BLOCKS: Mapping[str, str] = {"aws": "Blocked", "gcp": "SERVICE_ACCOUNT_ACCESS_DENIED", "azure": "Disabled"}
"""Why an account may launch nothing, in the cloud's words."""
BREAKS_OFF = "send.record:hurry_watch:before"
"""Where a step of every lease of `breaks_off` breaks off."""
_CHECK_RUNS = 3


def life(group: Group, arm: Arm | None) -> None:
    group.create(arm)
    group.until("active")
    group.release()


def changes(group: Group, arm: Arm | None) -> None:
    """Extended and rebooted."""
    group.create(arm)
    group.until("active")
    group.ask("extend", {"extend_by_seconds": 3600})
    group.ask("reboot")
    group.until_hit(at_least=3)
    group.release()


def held_up(group: Group, arm: Arm | None) -> None:
    """The cloud throttles whatever is asked of the VMs that run."""
    group.create(arm)
    group.until("active")
    with ExitStack() as faults:
        for operation in CHANGES[group.provider]:
            faults.enter_context(group.cloud.fault(operation, "throttle", provider=group.provider, times=None))
        group.ask("extend", {"extend_by_seconds": 3600})
        wait_until(lambda: False, timeout=2, poll=POLL)  # a reboot that is asked for again comes before the deadline
        group.ask("reboot")
        wait_until(lambda: False, timeout=3, poll=POLL)
        group.want_end()
        group.until_hit(at_least=3)
    group.release()


def launched_together(group: Group, arm: Arm | None) -> None:
    """Each with company, and the cloud answers every call."""
    group.create(arm, company=3)
    group.until("active")
    group.release()


def together(group: Group, arm: Arm | None) -> None:
    """Each with company: the answers to their create calls are lost at first."""
    operation = BATCHES.get(group.provider, LAUNCH[group.provider])
    with group.cloud.fault(operation, "lose_reply", provider=group.provider, times=2 * len(group.names)):
        group.create(arm, company=3)
        group.until("active")
    group.release()


def together_in_part(group: Group, arm: Arm | None) -> None:
    """Each with company, and the cloud has no capacity for some of them at first."""
    operation = BATCHES.get(group.provider, LAUNCH[group.provider])
    with group.cloud.fault(operation, "partial", provider=group.provider, times=4 * len(group.names), count=2):
        group.create(arm, company=3, wait_seconds=600)
        group.until("active")
    group.release()


def together_throttled(group: Group, arm: Arm | None) -> None:
    """Each with company: their attempts are planned again after each throttled call, and then refused."""
    operation = BATCHES.get(group.provider, LAUNCH[group.provider])
    with group.cloud.fault(operation, "throttle", provider=group.provider, times=None):
        group.create(arm, company=3, wait_seconds=600)
        group.until_hit(at_least=3, quiet=10)
    with group.cloud.capacity(0, provider=group.provider, instance_type=TYPES[group.provider]):
        group.until_hit(at_least=3, quiet=10)
    group.until("active")
    group.release()


def together_unanswered(group: Group, arm: Arm | None) -> None:
    """Each with company. Nobody knows what the create calls did: they are given up, and their VMs are looked for."""
    operation = BATCHES.get(group.provider, LAUNCH[group.provider])
    with group.cloud.fault(operation, "error", provider=group.provider, times=None):
        group.create(arm, company=3, wait_seconds=600)
        group.until_hit(at_least=22)
    group.until("active")
    group.release()


def grouped(group: Group, arm: Arm | None) -> None:
    """Members of groups: the first pool has no room for one of them, so that all retreat. Then the answers are lost."""
    operation = BATCHES.get(group.provider, LAUNCH[group.provider])
    with group.cloud.fault(operation, "partial", provider=group.provider, times=4 * len(group.names), count=2):
        group.create_groups(arm, size=3, form_seconds=60, placement="same_zone")
        group.until_hit(at_least=20)
    with group.cloud.fault(operation, "lose_reply", provider=group.provider, times=2 * len(group.names)):
        group.until("active")
    group.release()


def reboots_denied(group: Group, arm: Arm | None) -> None:
    """The account lacks the permission to reboot."""
    group.create(arm)
    group.until("active")
    with group.cloud.denying(REBOOT_RIGHTS[group.provider], provider=group.provider):
        group.ask("reboot")
        group.until_hit(at_least=3, quiet=20)
    group.release()


def protected(group: Group, arm: Arm | None) -> None:
    """The cloud refuses to end the VMs, until somebody takes their protection away."""
    group.create(arm)
    group.until("active")
    with group.cloud.protecting(group.vm_ids(), provider=group.provider):
        group.want_end()
        group.until_hit(at_least=3, quiet=20)
    group.release()


def answers_lost(group: Group, arm: Arm | None) -> None:
    with group.cloud.fault(LAUNCH[group.provider], "lose_reply", provider=group.provider, times=None):
        group.create(arm)
        group.until_hit(at_least=5)
    group.until("active")
    group.release()


def launches_fail(group: Group, arm: Arm | None) -> None:
    """Nobody knows whether they did: they are given up after a while, and the proof is waited for."""
    with group.cloud.fault(LAUNCH[group.provider], "error", provider=group.provider, times=None):
        group.create(arm)
        group.until_hit(at_least=22)
    group.until("active")
    group.release()


def refused_when_repeated(group: Group, arm: Arm | None) -> None:
    """Nobody knows whether the first call did anything, and the second is refused: looked for, while the cloud throttles."""
    with group.cloud.capacity(0, provider=group.provider, instance_type=TYPES[group.provider]):
        with group.cloud.fault(LAUNCH[group.provider], "error", provider=group.provider, times=None):
            group.create(arm, wait_seconds=600)
            group.until("provisioning")
            wait_until(lambda: False, timeout=2, poll=POLL)
        wait_until(lambda: False, timeout=4, poll=POLL)
        with group.cloud.fault("*", "throttle", provider=group.provider, times=3 * len(group.names)):
            group.until_hit(at_least=10, quiet=20)
    group.until("active")
    group.release()


def locked_out(group: Group, arm: Arm | None) -> None:
    """The account is refused for a while. At AWS; others know no such fault."""
    with group.cloud.refusing_our_credentials():
        group.create(arm, wait_seconds=600)
        group.until_hit(at_least=6)
    group.until("active")
    group.release()


def somebody_elses(group: Group, arm: Arm | None) -> None:
    """The credentials are another account's for a while. At AWS; others know no such fault."""
    with ExitStack() as faults:

        def exchange() -> None:
            if group.provider == AWS:
                faults.enter_context(group.cloud.answering_as_another_account())
                wait_until(lambda: group.operator.account()["state"] == "disabled", timeout=STUCK_SECONDS, poll=POLL)

        group.create(arm, before_launch=exchange, wait_seconds=600)
        group.until_hit(at_least=3, quiet=20)
    group.until("active")
    group.release()


def blocked(group: Group, arm: Arm | None) -> None:
    """The account may launch nothing. Operators remove the cause and request runs of its checks, until the leases are active.

    A launch that was on its way blocks the account again after a run, so one request is not always enough.
    """
    with group.cloud.refusing_launches(BLOCKS[group.provider], provider=group.provider):
        group.create(arm, wait_seconds=600)
        group.until_hit(at_least=6, quiet=10)
    for _ in range(_CHECK_RUNS):
        group.operator.check_account(ACCOUNTS[group.provider])
        if group.until("active", seconds=STUCK_SECONDS / _CHECK_RUNS):
            break
    group.release()


def begun_without_a_cloud(group: Group, arm: Arm | None) -> None:
    """Workers start while their cloud fails: they ask who they are, for images, and set aside what does not answer."""
    with ExitStack() as faults:

        def begin_anew() -> None:
            faults.enter_context(group.cloud.fault("*", "error", provider=group.provider, times=None))
            group.restart()

        group.create(arm, before_launch=begin_anew, wait_seconds=600)
        group.until_hit(at_least=15, quiet=20)
    group.until("active")
    group.release()


def unwanted_before_it_is_known(group: Group, arm: Arm | None) -> None:
    with group.cloud.fault(LAUNCH[group.provider], "lose_reply", provider=group.provider, times=None):
        group.create(arm)
        group.until("provisioning")
        wait_until(lambda: False, timeout=2, poll=POLL)
        group.release()


def throttled(group: Group, arm: Arm | None) -> None:
    with group.cloud.fault(LAUNCH[group.provider], "throttle", provider=group.provider, times=None):
        group.create(arm)
        group.until_hit(at_least=3)
    group.until("active")
    group.release()


def full(group: Group, arm: Arm | None) -> None:
    with group.cloud.capacity(0, provider=group.provider, instance_type=TYPES[group.provider]):
        group.create(arm, wait_seconds=600)
        group.until_hit(at_least=4)
    group.until("active")
    group.release()


def replaced(group: Group, arm: Arm | None) -> None:
    """The cloud takes spot VMs back, with a notice."""
    group.create(arm, market="spot", on_interruption="replace", wait_seconds=600)
    group.until("active")
    taken = group.vm_ids()
    for vm_id in taken:
        group.cloud.interrupt(vm_id, notice_seconds=3.0, provider=group.provider)
    group.until_all(lambda lease: lease["state"] == "active" and own_id(lease) not in taken)
    group.release()


def ended_behind_our_back(group: Group, arm: Arm | None) -> None:
    group.create(arm)
    group.until("active")
    for vm_id in group.vm_ids():
        group.cloud.stop(vm_id, provider=group.provider)
    group.until(*ENDED)
    group.release()


def shows_late(group: Group, arm: Arm | None) -> None:
    """Listings and gets show a VM only seconds after its launch."""
    with group.cloud.showing_late(3.5):
        group.create(arm)
        group.until("active")
    group.release()


def firewalled(group: Group, arm: Arm | None) -> None:
    """With a firewall of their own, which cannot be removed while their VMs end."""
    group.create(arm, allowed_cidrs=["203.0.113.0/24"])
    group.until("active")
    with group.cloud.fault(FIREWALL_ENDS[group.provider], "error", provider=group.provider, times=None):
        group.release()
    group.until_hit(at_least=12, quiet=20)


def breaks_off(group: Group, arm: Arm | None) -> None:
    """A step fails for a bug, and is done again."""
    group.create(arm, before_launch=lambda: [group.break_off(lease_id) for lease_id in group.leases.values()])
    group.until("active")
    group.release()


def never_ready(group: Group, arm: Arm | None) -> None:
    with group.cloud.fault("boot", "hang", provider=group.provider, times=None):
        group.create(arm)
        group.until(*ENDED)
    group.release()


def proof_on_console(group: Group, arm: Arm | None) -> None:
    """VMs without a network: their proofs are read from the consoles."""
    with group.cloud.gpus(group.provider, agent="no_network"):
        group.create(arm, proof="required")
        group.until("active")
    group.release()


def no_proof(group: Group, arm: Arm | None) -> None:
    """The agents never run: the leases do without a proof."""
    with group.cloud.gpus(group.provider, agent="off"):
        group.create(arm, proof="auto")
        group.until("active")
    group.release()


def broken_gpus(group: Group, arm: Arm | None) -> None:
    """The first VMs show no GPU. They are ended, and the leases go on elsewhere."""
    with group.cloud.gpus(group.provider, instance_type=TYPES[group.provider], visible=0):
        group.create(arm, wait_seconds=600)
        group.until_hit(at_least=6, quiet=20)
    group.until("active")
    group.release()


def gpus_need_a_reset(group: Group, arm: Arm | None) -> None:
    """A reboot helps, before the leases are active and afterwards."""
    with group.cloud.gpus(group.provider, instance_type=TYPES[group.provider], recovery_action="reset"):
        group.create(arm, on_gpu_failure="reboot")
        group.until("active")
    for vm_id in group.vm_ids():
        group.cloud.set_gpus(group.provider, instance_id=vm_id, recovery_action="reset")
    group.until_hit(at_least=4, quiet=20)
    group.release()


def gpus_cannot_be_reset(group: Group, arm: Arm | None) -> None:
    """The cloud throttles the reboots and then denies them, before the leases are active and afterwards."""
    reboot, *_ = CHANGES[group.provider]

    def refuse() -> None:
        with group.cloud.fault(reboot, "throttle", provider=group.provider, times=None):
            group.until_hit(at_least=6, quiet=10)
        with group.cloud.denying(REBOOT_RIGHTS[group.provider], provider=group.provider):
            group.until_hit(at_least=8, quiet=10)

    with group.cloud.gpus(group.provider, instance_type=TYPES[group.provider], recovery_action="reset"):
        group.create(arm, on_gpu_failure="reboot", wait_seconds=600)
        refuse()
    group.until("active")
    for vm_id in group.vm_ids():
        group.cloud.set_gpus(group.provider, instance_id=vm_id, recovery_action="reset")
    refuse()
    group.release()


def gpus_fail_later(group: Group, arm: Arm | None) -> None:
    """GPUs of active leases fail, and their VMs are replaced."""
    group.create(arm, on_gpu_failure="replace", wait_seconds=600)
    group.until("active")
    failed = group.vm_ids()
    for vm_id in failed:
        group.cloud.set_gpus(group.provider, instance_id=vm_id, remap_failed=True)
    group.until_all(lambda lease: lease["state"] == "active" and own_id(lease) not in failed)
    group.release()


def nobodys(group: Group, arm: Arm | None) -> None:
    """A VM of ours without any row."""
    group.create(arm)
    tags = {INSTALLATION: group.operator.installation_id()}
    place = {"region": REGIONS[group.provider], "instance_type": TYPES[group.provider]}
    planted = group.cloud.plant(tags, provider=group.provider, **place)
    wait_until(lambda: not group.cloud.vm(planted)["alive"], timeout=STUCK_SECONDS, poll=POLL)
    group.until_hit()
    group.release()


SCENARIOS: Mapping[str, Play] = {
    play.__name__: play
    for play in (
        life,
        launched_together,
        together,
        together_in_part,
        together_throttled,
        together_unanswered,
        grouped,
        changes,
        held_up,
        reboots_denied,
        protected,
        answers_lost,
        launches_fail,
        refused_when_repeated,
        locked_out,
        somebody_elses,
        blocked,
        unwanted_before_it_is_known,
        throttled,
        full,
        replaced,
        ended_behind_our_back,
        shows_late,
        firewalled,
        breaks_off,
        never_ready,
        proof_on_console,
        no_proof,
        broken_gpus,
        gpus_need_a_reset,
        gpus_cannot_be_reset,
        gpus_fail_later,
        nobodys,
        mounted,
        mounted_badly,
        disks_behind_our_back,
        begun_without_a_cloud,
    )
}
"""A point is tried in the first of them that reaches it, then in others."""
