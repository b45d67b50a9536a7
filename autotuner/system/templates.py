"""The Jinja environment of all MLIR templates."""

from functools import cache

import jinja2

from autotuner.system.settings import packaged


def render(template: str, **values: object) -> str:
    """Renders a template; callers check names and paths in `values`."""
    return template_of(template).render(**values)


def template_of(name: str) -> jinja2.Template:
    return _environment().get_template(name)


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(packaged("templates")),
        undefined=jinja2.StrictUndefined,
        autoescape=False,
        keep_trailing_newline=True,
    )
