"""Failpoints that some runs cannot reach, and why. Names are without `:before` and `:after`.

At all three clouds together every point has a scenario. A run at some of them lacks what only the others can show.
"""

from collections.abc import Mapping

_ACCOUNT = "only the simulated AWS can refuse our credentials or answer as another account"

_VOLUMES = "no scenario has volumes; tests/workers/test_volume_kills.py kills workers there, tests/workers/jobs/test_volumes.py lists"
_VOLUME_POINTS = (
    "attach._attach:attach_volume",
    "attach._failed:retry_later",
    "attach.attach:fact",
    "jobs.volumes._create:get_volumes",
    "jobs.volumes._create:make_available",
    "jobs.volumes._create:postpone",
    "jobs.volumes._delete:delete_volume",
    "jobs.volumes._delete:get_volumes",
    "jobs.volumes._delete:postpone",
    "jobs.volumes._end:end",
    "jobs.volumes._ensure_disk:create_volume",
    "jobs.volumes._ensure_disk:list_volumes",
    "jobs.volumes._ensure_disk:record_disk",
    "jobs.volumes._failed:postpone",
    "jobs.volumes._work:mark_sent",
    "observation.volumes._end_lost:end",
    "observation.volumes._end_lost:get_volumes",
    "observation.volumes._note:note_missing",
    "observation.volumes._note:note_seen",
    "observation.volumes.observe_volumes:list_volumes",
    "observation.volumes._try_to_remove:delete_volume",
)

REASONS: Mapping[str, str] = {
    **dict.fromkeys(_VOLUME_POINTS, _VOLUMES),
    "runtime.accounts.Accounts._pin:account_failed": _ACCOUNT,
    "runtime.accounts.Accounts.set_aside:account_failed": _ACCOUNT,
    "groups.coordinator.Coordinator._move:postpone": "reached after an exception that is a bug; tests/workers/groups/test_formation.py raises one",
    "observation.inventory._restore_term:write": "reached after a restore from a backup; chaos and tests/workers/test_restore.py have one",
    "observation.inventory._without_owned_elsewhere:vms_of": "reached when VMs are lost, or their account has another name; chaos loses them, tests/workers/runtime/test_brakes.py renames it",
    "record_batch.record:commit": "reached when a worker loses claims during a create call that is then refused for some slots; tests/workers/lifecycle/test_batches_meanwhile.py has late answers",
    "resolve_unknown._declare_dead:hurry_watch": "reached when a VM ended before anybody saw it, and a disk or an address is left; tests/workers/lifecycle/test_unknown_outcomes.py has such a VM",
    "resolve_unknown._write:commit": "reached where Google's operations tell of a VM that does not show; elsewhere the watch sees it first",
    "resolve_unknown.verify:presume_gone": "reached at Azure, which forgets a VM with its end; EC2 shows it for an hour, Google's operations tell of it",
}
