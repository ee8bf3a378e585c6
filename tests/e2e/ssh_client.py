"""`ssh` for tests, because a machine may have no OpenSSH: python ssh_client.py KEY -o NAME=VALUE … HOST."""

import asyncio
import sys
from pathlib import Path

import asyncssh


async def main(key: str, *words: str) -> int:
    """Standard input is the session's. The exit status of the shell, 255 for a refused login."""
    options = dict(word.split("=", 1) for word in words[1:-1:2])
    known = options["UserKnownHostsFile"].strip('"') if options["StrictHostKeyChecking"] == "yes" else None
    try:
        async with asyncssh.connect(
            words[-1],
            int(options["Port"]),
            username=options["User"],
            host_key_alias=options["HostKeyAlias"],
            client_keys=[key],
            agent_path=None,
            config=None,
            known_hosts=known,
        ) as session:
            done = await session.run(input=sys.stdin.read())
    except (OSError, asyncssh.Error) as error:
        sys.stderr.write(f"{error}\n")
        return 255
    sys.stdout.write(str(done.stdout))
    return done.exit_status or 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(str(Path(sys.argv[1])), *sys.argv[2:])))
