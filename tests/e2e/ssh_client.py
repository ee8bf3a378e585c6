"""`ssh` for tests, because a machine may have no OpenSSH: python ssh_client.py -o NAME=VALUE … -i KEY … HOST [COMMAND]."""

import asyncio
import sys
from collections.abc import Sequence

import asyncssh


async def main(words: Sequence[str]) -> int:
    """Standard input is the session's. The exit status of the shell, 255 for a refused login."""
    settings, keys, rest = _parsed(words)
    known = settings["UserKnownHostsFile"].strip('"') if settings["StrictHostKeyChecking"] == "yes" else None
    host, *command = rest
    try:
        async with asyncssh.connect(
            host,
            int(settings["Port"]),
            username=settings["User"],
            host_key_alias=settings["HostKeyAlias"],
            client_keys=keys,
            agent_path=None,
            config=None,
            known_hosts=known,
        ) as session:
            done = await session.run(" ".join(command) or None, input=None if command else sys.stdin.read())
    except (OSError, asyncssh.Error) as error:
        sys.stderr.write(f"{error}\n")
        return 255
    sys.stdout.write(str(done.stdout))
    return done.exit_status or 0


def _parsed(words: Sequence[str]) -> tuple[dict[str, str], list[str], list[str]]:
    settings, keys = {}, []
    at = 0
    while words[at] in {"-o", "-i"}:
        if words[at] == "-o":
            name, _, value = words[at + 1].partition("=")
            settings[name] = value
        else:
            keys.append(words[at + 1])
        at += 2
    return settings, keys, list(words[at:])


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
