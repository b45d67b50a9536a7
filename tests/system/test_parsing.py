"""Files of numpy, and Python's own syntax, read by many threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from autotuner.system.parsing import SeveralArraysError, parsed, read_npy


def test_what_is_no_file_of_one_array_is_a_value_error(tmp_path: Path) -> None:
    (tmp_path / "empty.npy").write_bytes(b"")
    (tmp_path / "text.npy").write_text("this is no array")
    np.save(tmp_path / "pickle.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "many.npz", a=np.zeros(2))
    for mapped in (False, True):
        for name in ("empty.npy", "text.npy", "pickle.npy"):
            with pytest.raises(ValueError, match=r"empty|pickle|contains|objects"):
                read_npy(tmp_path / name, mapped=mapped)
        with pytest.raises(SeveralArraysError, match="several arrays"):
            read_npy(tmp_path / "many.npz", mapped=mapped)
        with pytest.raises(FileNotFoundError):
            read_npy(tmp_path / "nothing.npy", mapped=mapped)


def test_many_threads_read_and_parse_at_once(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(6, dtype=np.float32).reshape(2, 3))

    def both(_: int) -> float:
        parsed("{'a': (1, 2), 'b': [3]}", mode="eval")
        return float(read_npy(tmp_path / "a.npy").sum())

    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(both, range(400))) == {15.0}
