"""Arrays as files of bytes, which IREE's tools read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from autotuner.errors import EnvironmentFailure


def write_raw(array: npt.NDArray[Any], path: Path) -> None:
    """The bytes of an array. numpy's own `tofile` does not say why it could not write them."""
    try:
        with path.open("wb") as file:
            file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    except OSError as error:
        raise EnvironmentFailure(
            f"cannot write {path}: {error.strerror or error}.", remedy="Free some space or choose another --workspace."
        ) from error
