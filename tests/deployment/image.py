"""The image, built from the Dockerfile without a registry, and run as an orchestrator would: read-only, as 10001, without rights."""

import json
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from app.local.ports import LOOPBACK, free_port
from tests.deployment.database import Check
from tests.deployment.installation import Installation, await_ready, module, running
from tests.deployment.needs import program
from tests.deployment.processes import CLEAN_ENDS, Process, clean_environment, expect, finish, run
from tests.e2e.people import ONE_A10G, Operator
from tests.harness.databases import ROOT

BASE = "localhost/gpulease-base"
IMAGE = "localhost/gpulease"
_SUITE = "bookworm"
_BASE_PACKAGES = "python3,python3-venv,python-is-python3,ca-certificates"
_SETTING = re.compile(r"^(?:global|:env:|install)\.([\w-]+)='(.*)'$", re.MULTILINE)
_BUILD_SECONDS = 420.0


class ImageTrial:
    """Each check builds on the one before it."""

    def __init__(self, installation: Installation, storage: Path) -> None:
        self._installation = installation
        self._storage = storage
        storage.mkdir()
        self._root = Path()
        self._config: dict[str, Any] = {}

    def checks(self) -> dict[str, Check]:
        return {
            "a base of Debian packages alone": self.make_base,
            "the Dockerfile builds on it, by hash": self.build,
            "it runs as 10001 and can write nothing but /tmp": self.run_without_rights,
            "migrate, api, worker and inventory from it: a whole lease": self.serve,
        }

    def make_base(self) -> str:
        root = self._storage / "base"
        run(
            "debootstrap",
            [program("debootstrap"), "--variant=minbase", f"--include={_BASE_PACKAGES}", _SUITE, str(root)],
            _environment(),
        )
        container = self._buildah("from", "scratch").strip()
        self._buildah("add", container, str(root), "/")
        self._buildah("commit", "--quiet", container, BASE)
        shutil.rmtree(root)
        return f"debootstrap {_SUITE}, python3"

    def build(self) -> str:
        mounts = [word for source, target in self._pip_settings() for word in ("--volume", f"{source}:{target}:ro")]
        self._buildah(
            *("build", "--isolation", "chroot", "--network", "host", "--pull-never"),
            *("--build-arg", f"BASE={BASE}", *mounts, "--tag", IMAGE, str(ROOT)),
        )
        container = self._buildah("from", "--pull-never", IMAGE).strip()
        self._root = Path(self._buildah("mount", container).strip())
        self._config = json.loads(self._buildah("inspect", "--type", "image", IMAGE))["OCIv1"]["config"]
        left = [name for name in ("pip", "pip3") if (self._root / "opt/gpulease/bin" / name).exists()]
        settings = self._root / "etc/pip.conf"
        expect(not left, f"the image holds {left}")
        expect(not settings.exists() or not settings.read_text(), "the machine's pip settings are in the image")
        return f"user {self._config['User']}"

    def run_without_rights(self) -> str:
        looks = (
            "import os, pathlib\n"
            "print(os.getuid(), os.getgid())\n"
            "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('CapEff')))\n"
            "pathlib.Path('/tmp/x').write_text('x')\n"
            "for place in ('/', '/opt/gpulease', '/etc', '/var/tmp'):\n"
            "    try:\n"
            "        pathlib.Path(place, 'x').write_text('x')\n"
            "    except OSError as error:\n"
            "        print(error.errno)\n"
        )
        command = self._command("look", ["python", "-c", looks], {}, entrypoint=False)
        said = run("runc", command, _environment()).split()
        expect(said[:3] == ["10001", "10001", "0" * 16], f"not 10001 without rights: {said}")
        expect(len(said) == 7, f"something could be written: {said}")
        return "0 capabilities, read-only root"

    def serve(self) -> str:
        installation = self._installation
        installation.postgres.make_owner(installation.passwords.owner)
        migrate = self._command("migrate", ["migrate"], installation.environment("migrate"))
        run("migrate", migrate, _environment())
        port = free_port()
        settings = {"GPULEASE_HOST": LOOPBACK, "GPULEASE_PORT": str(port)}
        processes = [
            Process(
                f"image-{service}",
                self._command(service, [service], installation.environment(service, **settings)),
                _environment(),
                installation.folder,
            )
            for service in ("api", "worker", "inventory")
        ]
        url = f"http://{LOOPBACK}:{port}"
        with running(processes):
            await_ready(url, processes)
            key = run(
                "operator-key", self._command("key", ["operator-key"], installation.environment("api")), _environment()
            )
            with Operator(url, key.strip()) as operator:
                operator.wait_for_offerings("aws")
                with operator.tenant("image", 10) as tenant:
                    tenant.wait(tenant.create(ONE_A10G), "active")
                    tenant.release_all()
            codes = [process.stop() for process in processes]
        expect(set(codes) <= CLEAN_ENDS, f"exit codes after SIGTERM: {codes}")
        return "queued, active, released"

    def _command(
        self, name: str, arguments: Sequence[str], environment: dict[str, str], *, entrypoint: bool = True
    ) -> list[str]:
        """runc, with a container of this name. Of the environment it gets what the compose file and the image give."""
        bundle = self._storage / f"bundle-{name}"
        bundle.mkdir()
        run("runc spec", [program("runc"), "spec", "--bundle", str(bundle)], _environment())
        file = bundle / "config.json"
        specification = json.loads(file.read_text())
        uid, gid = (int(number) for number in self._config["User"].split(":"))
        ours = {key: value for key, value in environment.items() if key.startswith(("GPULEASE_", "AWS_", "AZURE_"))}
        specification["root"] = {"path": str(self._root), "readonly": True}
        specification["process"] |= {
            "terminal": False,
            "user": {"uid": uid, "gid": gid},
            "args": [*(self._config["Entrypoint"] if entrypoint else []), *arguments],
            "cwd": self._config["WorkingDir"],
            "env": [*self._config["Env"], *(f"{key}={value}" for key, value in ours.items())],
            "noNewPrivileges": True,
            "capabilities": {kind: [] for kind in specification["process"]["capabilities"]},
        }
        kept = [one for one in specification["linux"]["namespaces"] if one["type"] != "network"]
        specification["linux"]["namespaces"] = kept
        specification["mounts"].append(_mount(self._config["WorkingDir"], "tmpfs", "tmpfs", ["nosuid", "nodev"]))
        configuration = ours.get("GPULEASE_CONFIG")
        if configuration is not None:
            folder = str(Path(configuration).parent)
            specification["mounts"].append(_mount(folder, "bind", self._readable(folder), ["bind", "ro"]))
        file.write_text(json.dumps(specification))
        state = self._storage / "runc"
        return [program("runc"), "--root", str(state), "run", "--bundle", str(bundle), f"gpulease-{os.getpid()}-{name}"]

    def _readable(self, folder: str) -> str:
        """The accounts file and what it names, for 10001 to read."""
        copy = self._storage / "accounts"
        if not copy.exists():
            copy.mkdir(mode=0o755)
            for file in (*Path(folder).glob("*.toml"), *Path(folder).glob("*.json")):
                Path(shutil.copy(file, copy)).chmod(0o644)
        return str(copy)

    def _pip_settings(self) -> Iterator[tuple[str, str]]:
        """The machine's own way to the packages, which the build needs and the image must not hold."""
        shown = finish(module("pip", "config", "list"), _environment()).stdout
        settings = dict(_SETTING.findall(shown))
        file = self._storage / "pip.conf"
        file.write_text("\n".join(["[global]", *(f"{name} = {value}" for name, value in settings.items()), ""]))
        yield str(file), "/etc/pip.conf"
        certificates = settings.get("cert")
        if certificates is not None:
            yield certificates, certificates

    def _buildah(self, *arguments: str) -> str:
        places = [
            "--root",
            str(self._storage / "store"),
            "--runroot",
            str(self._storage / "run"),
            "--storage-driver",
            "vfs",
        ]
        return run(
            f"buildah {arguments[0]}", [program("buildah"), *places, *arguments], _environment(), seconds=_BUILD_SECONDS
        )

    def close(self) -> None:
        finish(
            [
                program("buildah"),
                "--root",
                str(self._storage / "store"),
                "--runroot",
                str(self._storage / "run"),
                "--storage-driver",
                "vfs",
                "umount",
                "--all",
            ],
            _environment(),
        )


def _mount(destination: str, kind: str, source: str, options: list[str]) -> dict[str, Any]:
    return {"destination": destination, "type": kind, "source": source, "options": options}


def _environment() -> dict[str, str]:
    return {**clean_environment(), "BUILDAH_ISOLATION": "chroot"}
