"""What a release consists of: the wheel and the source distribution hold what is listed, and work when installed."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.support.patience import ENOUGH

ROOT = Path(__file__).parents[1]
PACKED = ("templates", "suites", "specs/microkernels", "registry/entries")
"""Folders that lie in the package of a wheel."""
LEFT_OUT = ".ci/"
"""Of the sources."""


def done(*words: str | Path, cwd: Path = ROOT, **environment: str) -> str:
    whole = {**os.environ, **environment}
    ran = subprocess.run([sys.executable, *words], cwd=cwd, env=whole, capture_output=True, text=True, timeout=ENOUGH)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def listed(*folders: str) -> set[str]:
    """What git knows, or would take."""
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *folders]
    names = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return {name for name in names if name and (ROOT / name).is_file()}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, and the wheel that is made of it."""
    folder = tmp_path_factory.mktemp("release")
    done("-m", "hatchling", "build", "-t", "sdist", "-d", folder)
    (sources,) = folder.glob("*.tar.gz")
    with tarfile.open(sources) as archive:
        archive.extractall(folder / "sources", filter="data")
    (unpacked,) = (folder / "sources").iterdir()
    done("-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=unpacked)
    return folder


def test_the_source_distribution_holds_what_git_has_and_nothing_else(made: Path) -> None:
    (unpacked,) = (made / "sources").iterdir()
    packed = {str(path.relative_to(unpacked)) for path in unpacked.rglob("*") if path.is_file()}
    assert packed == {name for name in listed() if not name.startswith(LEFT_OUT)} | {"PKG-INFO"}


def test_the_wheel_holds_the_package_its_data_and_nothing_else(made: Path) -> None:
    (wheel,) = made.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = {name: archive.read(name) for name in archive.namelist() if ".dist-info/" not in name}
        about = {name.partition(".dist-info/")[2] for name in archive.namelist() if name not in packed}
    names = listed(*PACKED, "autotuner")
    files = {name if name.startswith("autotuner/") else f"autotuner/{name}": ROOT / name for name in names}
    assert packed == {name: path.read_bytes() for name, path in files.items()}
    assert "autotuner/templates/spec.mlir.j2" in packed
    assert about == {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}


def test_the_wheel_works_where_it_is_installed(made: Path, tmp_path: Path) -> None:
    """It finds its templates and kernels without the checkout."""
    (wheel,) = made.glob("*.whl")
    folder = tmp_path / "installed"
    done("-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", folder, wheel)
    here = {"PYTHONPATH": str(folder), "PYTHONSAFEPATH": "1"}
    said = done("-c", "import autotuner; print(autotuner.__file__)", cwd=tmp_path, **here)
    assert said.strip() == str(folder / "autotuner" / "__init__.py")
    words = ("gemm", "--shape", "64x64x64", "--dtype", "f32", "--dry-run", "--device", "none")
    assert "iree-compile" in done("-m", "autotuner", *words, cwd=tmp_path, **here)
