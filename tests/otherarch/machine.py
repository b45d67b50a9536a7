"""The architecture that this machine does not have, and what runs its programs here.

`python -m tests.otherarch.machine` brings IREE's runtime for it; `apt` the packages that must be installed for it.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

FOLDER = Path(__file__).parents[2] / ".otherarch"


@dataclass(frozen=True)
class Machine:
    """An architecture under QEMU's user-mode emulation, with Debian's libraries for it."""

    name: str
    debian: str
    processor: str
    """What iree-compile makes code for."""
    emulated: str
    """The processor that QEMU shows: it has what `processor` needs."""

    @property
    def qemu(self) -> str:
        return f"qemu-{self.name}-static"

    @property
    def root(self) -> Path:
        return Path("/usr") / f"{self.name}-linux-gnu"

    @property
    def gcc(self) -> str:
        return f"{self.name}-linux-gnu-gcc"

    @property
    def packages(self) -> tuple[str, ...]:
        libraries = (f"libc6-{self.debian}-cross", f"libstdc++6-{self.debian}-cross")
        return ("qemu-user-static", *libraries, f"gcc-{self.name.replace('_', '-')}-linux-gnu")

    @property
    def flags(self) -> tuple[str, ...]:
        return (
            f"--iree-llvmcpu-target-triple={self.name}-unknown-linux-gnu",
            f"--iree-llvmcpu-target-cpu={self.processor}",
        )

    @property
    def runtime(self) -> Path:
        """The unpacked wheel of the very version that is installed here."""
        return FOLDER / f"{self.name}-{version('iree-base-runtime')}"

    @property
    def iree_run_module(self) -> Path:
        return self.runtime / "iree" / "_runtime_libs" / "iree-run-module"

    def missing(self) -> str:
        """What is not there of all that the tests need; empty: nothing."""
        for program in (self.qemu, self.gcc):
            if shutil.which(program) is None:
                return f"{program} is not installed"
        if not (self.root / "lib" / "libstdc++.so.6").exists():
            return f"libstdc++6-{self.debian}-cross is not installed"
        return "" if self.iree_run_module.is_file() else f"{self.iree_run_module} is not there"


_MACHINES = {
    "aarch64": Machine("aarch64", "arm64", "neoverse-n1", "neoverse-n1"),
    "x86_64": Machine("x86_64", "amd64", "haswell", "max"),
}
OTHER = _MACHINES["x86_64" if platform.machine() == "aarch64" else "aarch64"]


def fetch() -> None:
    """The runtime's wheel from pip, unpacked: its programs need no Python."""
    if OTHER.iree_run_module.is_file():
        return
    FOLDER.mkdir(exist_ok=True)
    wheels = FOLDER / "wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    wanted = f"iree-base-runtime=={version('iree-base-runtime')}"
    options = ["--quiet", "--no-deps", "--only-binary=:all:", f"--platform=manylinux_2_28_{OTHER.name}"]
    subprocess.run([sys.executable, "-m", "pip", "download", *options, "--dest", wheels, wanted], check=True)
    (wheel,) = wheels.glob("*.whl")
    making = FOLDER / f"{OTHER.runtime.name}.making"
    shutil.rmtree(making, ignore_errors=True)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(making)
    (making / OTHER.iree_run_module.relative_to(OTHER.runtime)).chmod(0o755)
    shutil.rmtree(OTHER.runtime, ignore_errors=True)
    making.rename(OTHER.runtime)
    shutil.rmtree(wheels)


if __name__ == "__main__":
    if sys.argv[1:] == ["apt"]:
        print(*OTHER.packages)
    else:
        fetch()
