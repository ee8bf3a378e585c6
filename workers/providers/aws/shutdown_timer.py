"""The VM's own dead-man switch: a timer that reads the deadline tag from the instance metadata.

The timer is only a second line of defence. Root in the VM can disable the timer, but not `gpulease deadman`, which runs
outside. All catalogue types are Nitro VMs. Their metadata reflect a changed tag while they run (EC2 user guide,
"View tags for your EC2 instances using instance metadata"). A shutdown from inside terminates the VM, because the
launch parameters say so.
"""

from typing import Any

from app.domain.tags import DEADLINE

_PATH = "/usr/local/sbin/gpulease-deadman"
_UNIT = "gpulease-deadman"

SCRIPT = f"""#!/bin/sh
# Ends this VM once its deadline has passed. No answer or no tag: nothing is done, the timer asks again.
metadata=http://169.254.169.254/latest
token=$(curl -sf -m 5 -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' "$metadata/api/token") || exit 0
deadline=$(curl -sf -m 5 -H "X-aws-ec2-metadata-token: $token" "$metadata/meta-data/tags/instance/{DEADLINE}") || exit 0
case $deadline in '' | *[!0-9]*) exit 0 ;; esac
[ "$(date +%s)" -lt "$deadline" ] || shutdown -h now
"""
_SERVICE = f"""[Unit]
Description=End this VM once its gpulease deadline has passed
[Service]
Type=oneshot
ExecStart={_PATH}
"""
_TIMER = """[Timer]
OnBootSec=60
OnUnitActiveSec=60
[Install]
WantedBy=timers.target
"""


def cloud_config() -> dict[str, Any]:
    """The files that cloud-init must write and the commands that it must run."""
    return {
        "write_files": [
            {"path": _PATH, "permissions": "0755", "content": SCRIPT},
            {"path": f"/etc/systemd/system/{_UNIT}.service", "content": _SERVICE},
            {"path": f"/etc/systemd/system/{_UNIT}.timer", "content": _TIMER},
        ],
        "runcmd": [["systemctl", "daemon-reload"], ["systemctl", "enable", "--now", f"{_UNIT}.timer"]],
    }
