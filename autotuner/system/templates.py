"""Where the templates are."""

from pathlib import Path


def templates() -> Path:
    """Inside the package once installed; beside it in a checkout."""
    package = Path(__file__).parent.parent
    installed = package / "templates"
    return installed if installed.is_dir() else package.parent / "templates"
