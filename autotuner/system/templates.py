"""The templates: where they are, and the one Jinja environment of MLIR. Its text is made here and nowhere else."""

from functools import cache
from pathlib import Path

import jinja2


def templates() -> Path:
    """Inside the package once installed; beside it in a checkout."""
    package = Path(__file__).parent.parent
    installed = package / "templates"
    return installed if installed.is_dir() else package.parent / "templates"


def render(template: str, **values: object) -> str:
    """The text of a template; names and paths in `values` are checked by who gives them."""
    return template_of(template).render(**values)


def template_of(name: str) -> jinja2.Template:
    return _environment().get_template(name)


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates()),
        undefined=jinja2.StrictUndefined,
        autoescape=False,
        keep_trailing_newline=True,
    )
