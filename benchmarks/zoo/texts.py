"""Networks that are text: StableHLO as JAX exports it, with weights among the arguments; and the models' encoder."""

from __future__ import annotations

from pathlib import Path

import jinja2

from benchmarks.models.encoder import Encoder
from benchmarks.zoo.nets import Net


def write(net: Net, path: Path, dtype: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if net.how == "mlir":
        return Encoder(dtype=dtype).write(path)
    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    environment = jinja2.Environment(loader=loader, undefined=jinja2.StrictUndefined, autoescape=False)
    path.write_text(environment.get_template(net.make).render(e=dtype))
    return path
