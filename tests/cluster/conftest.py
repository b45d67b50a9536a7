from __future__ import annotations

from collections.abc import Iterator

import pytest

from autotuner.iree.tools import Tools
from tests.support.clusters import LocalCluster, local_cluster


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory, tools: Tools) -> Iterator[LocalCluster]:
    """One worker that only builds, and two whose device is this processor, in two kinds."""
    assert tools.programs  # what the workers need to know of the compiler is known before they start
    with local_cluster(tmp_path_factory.mktemp("cluster")) as made:
        for name, words in {
            "build-1": ("--jobs", "1"),
            "cpu-1": ("--jobs", "1", "--device", "local-task"),
            "sync-1": ("--jobs", "1", "--device", "local-sync", "--resource", "one-core"),
        }.items():
            made.start(name, *words)
        for worker in made.workers.values():
            worker.ready()
        yield made
