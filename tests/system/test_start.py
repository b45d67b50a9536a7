"""Python processes of autotune: what lies in the folder that it is called in is never imported."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import autotuner
from autotuner.system import process

STRANGER = "import pathlib; pathlib.Path({mark!r}).touch(); raise ImportError('a stranger')\n"
PACKAGE = Path(autotuner.__file__).parent


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What strangers' modules in the current folder would write, were they imported."""
    mark = tmp_path / "imported"
    for name in ("hashlib", "json", "typer", "numpy", "autotuner", "runpy", "sqlalchemy"):
        (tmp_path / f"{name}.py").write_text(STRANGER.format(mark=str(mark)))
    monkeypatch.chdir(tmp_path)
    return mark


def test_the_very_package_is_started_whatever_lies_beside_or_is_installed(
    mark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(mark.parent / "installed"))
    (mark.parent / "installed" / "autotuner").mkdir(parents=True)
    (mark.parent / "installed" / "autotuner" / "__init__.py").write_text(STRANGER.format(mark=str(mark)))
    done = process.run(process.own_module("autotuner", "--version"), timeout=120)
    assert (done.ok, done.stdout.strip()) == (True, f"autotune {autotuner.__version__}"), done.stderr
    assert not mark.exists()


def test_every_python_that_is_started_is_safe() -> None:
    """No command of the package has sys.executable without -P (or -I) behind it."""
    found = 0
    texts = {path: text for path in PACKAGE.rglob("*.py") if "sys.executable" in (text := path.read_text())}
    for path, text in texts.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.List | ast.Tuple):
                words = [ast.unparse(one) for one in node.elts]
                if "sys.executable" in words:
                    found += 1
                    assert words[words.index("sys.executable") + 1] in ("'-P'", "'-I'"), f"{path}:{node.lineno}"
    assert found >= 4
