"""The processes of a stack, as values, and the supervisor configuration that runs them."""

import shlex
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from app.local.embedded_postgres import EmbeddedCluster
from app.local.embedded_redis import EmbeddedRedis
from app.local.home import Home
from app.local.system_user import postgres_user
from app.settings import StartupError

DATABASE = "postgres"
MIGRATION = "migrate"
BROKER = "redis"
CLOUD = "cloudsim"
API = "api"
WORKER = "worker"
INVENTORY = "inventory"

WORKERS: str = "workers"
"""The module of both kinds of worker process."""

Section = tuple[str, Mapping[str, str]]

MIGRATION_IMPORTS = ("app.server.migrate",)
CLOUD_IMPORTS = ("cloudsim.server", "cloudsim.ssh.server", "cloudsim.gpus.agents", "uvicorn.loops.uvloop")
API_IMPORTS = ("app.server.start", "app.server.api", "uvicorn.lifespan.on", "uvicorn.loops.uvloop")
# behind the first: what Celery imports when a consumer starts
WORKER_IMPORTS = (
    "workers.process.running",
    "celery.app.amqp",
    "celery.concurrency.thread",
    "celery.worker.autoscale",
    "celery.worker.consumer",
    "kombu.transport.redis",
)

# The groups end in this order, each group at once, so that no process loses a server that it still needs.
SERVICES = (API, WORKER, INVENTORY)
SERVERS = (CLOUD, BROKER, DATABASE)


@dataclass(frozen=True)
class Program:
    """One supervised program. With `socket`, its processes share one listening socket as file descriptor 0.

    `imports`: modules of a Python program that take long to import. supervisord imports them once for all its programs.
    `calls_clouds`: whether it gets the cloud credentials. `once`: it ends by itself, and is not started again.
    """

    name: str
    argv: tuple[str, ...]
    processes: int = 1
    socket: str | None = None
    user: str | None = None
    stop_signal: str = "TERM"
    stop_seconds: int = 20
    environment: Mapping[str, str] = field(default_factory=dict)
    imports: tuple[str, ...] = ()
    calls_clouds: bool = False
    once: bool = False


def python(*argv: str) -> tuple[str, ...]:
    """This interpreter, with a module to run."""
    return (sys.executable, "-m", *argv)


def database(cluster: EmbeddedCluster) -> Program:
    """PostgreSQL; SIGINT is its fast and clean shutdown."""
    user = postgres_user()
    return Program(
        DATABASE, tuple(cluster.argv()), user=user.name if user else None, stop_signal="INT", stop_seconds=30
    )


def broker(server: EmbeddedRedis) -> Program:
    """Redis."""
    return Program(BROKER, tuple(server.argv()))


def migration() -> Program:
    """Brings the database's schema up to date."""
    return Program(MIGRATION, python("app.server", "migrate"), imports=MIGRATION_IMPORTS, once=True)


def cloud(home: Home, port: int, ssh_port: int, profile: str, gpu_agents: int) -> Program:
    """The simulated cloud, which keeps its VMs over a restart. Its VMs accept logins at `ssh_port`.

    `gpu_agents`: so many VMs run the real agent.
    """
    ports = ("--port", str(port), "--ssh-port", str(ssh_port))
    agents = ("--gpu-agents", str(gpu_agents))
    argv = python("cloudsim", *ports, *agents, "--profile", profile, "--state", str(home.cloudsim_file))
    return Program(CLOUD, argv, imports=CLOUD_IMPORTS)


def services(
    *, host: str, port: int, api: int, workers: int, inventories: int, adapters: Iterable[str]
) -> list[Program]:
    """The program itself: `api` processes behind one port, workers, and inventories.

    One inventory is enough for the work. A second continues when the first ends: workers launch nothing that was not
    listed since their start.

    A single API process opens its port by itself. supervisord closes a shared socket together with the last process
    that has it. supervisord then dies when it cannot bind the socket again at once (another child may hold the socket
    between fork and exec).

    `adapters`: the modules of the providers' adapters that the accounts use.
    """
    shared = Program(API, python("app.server", "api"), api, imports=API_IMPORTS)
    if api > 1:
        shared = replace(shared, socket=f"tcp://{host}:{port}", environment={"GPULEASE_LISTEN_FD": "0"})
    imports = (*WORKER_IMPORTS, *adapters)
    return [
        shared,
        # not `app.server worker`, which replaces itself by a new interpreter
        Program(WORKER, python(WORKERS, "worker"), workers, imports=imports, calls_clouds=True),
        Program(INVENTORY, python(WORKERS, "inventory"), inventories, imports=imports, calls_clouds=True),
    ]


def render(home: Home, programs: Iterable[Program], user: str | None) -> str:
    """supervisor.conf, for a supervisord that runs in the home.

    No program starts automatically: the stack starts each program when its dependencies are ready.
    """
    sections = [*_supervisor(home, user), *(_program(program) for program in programs)]
    return "\n".join(_section(title, options) for title, options in sections)


def _supervisor(home: Home, user: str | None) -> list[Section]:
    main = {
        "nodaemon": "true",
        "logfile": "logs/supervisord.log",
        "pidfile": "supervisord.pid",
    }
    if user is not None:
        main["user"] = user
    return [
        ("unix_http_server", {"file": _literal(str(home.supervisor_socket)), "chmod": "0700"}),
        ("supervisord", main),
        (
            "rpcinterface:supervisor",
            {"supervisor.rpcinterface_factory": "supervisor.rpcinterface:make_main_rpcinterface"},
        ),
    ]


def _program(program: Program) -> Section:
    options = {
        "command": _literal(shlex.join(program.argv)),
        "process_name": "%(program_name)s",
        "stdout_logfile": f"logs/{program.name}.log",
        "stdout_logfile_maxbytes": "10MB",
        "stdout_logfile_backups": "3",
        "redirect_stderr": "true",
        "autostart": "false",
        "autorestart": str(not program.once).lower(),
        "startsecs": "0" if program.once else "2",
        "startretries": "1000000",
        "stopsignal": program.stop_signal,
        "stopwaitsecs": str(program.stop_seconds),
        "killasgroup": "true",
        "environment": ",".join(f'{name}="{value}"' for name, value in program.environment.items()),
    }
    if program.processes > 1:
        options["numprocs"] = str(program.processes)
        options["process_name"] = "%(program_name)s_%(process_num)d"
        options["stdout_logfile"] = f"logs/{program.name}-%(process_num)d.log"
    if program.user is not None:
        options["user"] = program.user
    if program.socket is None:
        return f"program:{program.name}", options
    return f"fcgi-program:{program.name}", {**options, "socket": program.socket, "socket_backlog": "2048"}


def _literal(text: str) -> str:
    """Supervisor expands %(…)s in values, and has no escape for the start of a comment.

    Raises StartupError for a text that contains such a start.
    """
    if any(odd in text for odd in (" ;", " #", "\n")):
        raise StartupError(f"a path with ' ;', ' #' or a line break in it cannot be used: {text}")
    return text.replace("%", "%%")


def _section(title: str, options: Mapping[str, str]) -> str:
    return "\n".join([f"[{title}]", *(f"{name} = {value}" for name, value in options.items()), ""])
