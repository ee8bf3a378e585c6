"""The ports of the user's options: whether they are free, and which program uses them if not."""

import psutil

from app.local.options import Options
from app.local.ports import is_free
from app.settings import StartupError


def check_ports(options: Options) -> None:
    """Raises StartupError with the port that another program uses, and the variable to set."""
    ports = {"GPULEASE_PORT": options.port}
    if options.is_simulated:
        if options.port == options.cloudsim_port:
            raise StartupError("GPULEASE_PORT and GPULEASE_CLOUDSIM_PORT must differ")
        ports["GPULEASE_CLOUDSIM_PORT"] = options.cloudsim_port
    for variable, port in ports.items():
        if not is_free(port):
            raise StartupError(
                f"port {port} is taken{_by_whom(port)}; stop that program or set {variable} to another port"
            )


def _by_whom(port: int) -> str:
    """Names the program that uses the port, where the system reports it (macOS reports it to root only)."""
    try:
        listening = [c for c in psutil.net_connections("tcp") if c.status == psutil.CONN_LISTEN]
        pid = next((c.pid for c in listening if c.laddr and c.laddr.port == port and c.pid), None)
        return f" by {psutil.Process(pid).name()} (process {pid})" if pid else ""
    except psutil.Error:
        return ""
