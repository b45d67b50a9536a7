"""What many tests need: the real programs, a builder whose cache is thrown away, and plans made only once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from iree.compiler import ir

from autotuner.build import Builder, BuildJob
from autotuner.build.executor import BuildExecutor
from autotuner.carriers.carrier import NOTHING, FileHeader, MicrokernelCarrier
from autotuner.iree.mlir import program_context
from autotuner.iree.tools import Tools
from autotuner.problems import Problem
from autotuner.specfiles.vetting import vet_spec
from autotuner.system import machine
from autotuner.system.cache import Cache
from autotuner.system.settings import cache_dir
from autotuner.targets import Target
from autotuner.tuning.plan import Candidate, Plan
from tests.support.fake_tools import ONE_ROUTE

# A loaded machine is no reason to fail.
settings.register_profile("unhurried", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")

COMPILE_TIMEOUT = 120.0
"""Generous: a loaded machine must not turn a build into a time-out."""


SLOWEST = ("tuning", "jobs/suite", "jobs/model", "programs", "jobs/buckets", "jobs/ab", "microkernels", "cli")
"""Folders whose files take longest: they come first, so that at the end no process runs one of them alone."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    ranks = {here / name: rank for rank, name in enumerate(SLOWEST)}
    items.sort(key=lambda item: ranks.get(item.path.parent, len(ranks)))


@pytest.fixture(scope="session")
def together(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for all processes of this test run."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if hasattr(request.config, "workerinput") else base) / "together"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def digests(together: Path) -> Path:
    """What is known of large files: to hash the compiler takes seconds."""
    folder = together / "digests"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session", autouse=True)
def idle() -> Iterator[None]:
    """What a run plans does not depend on what else this machine does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine, "load", lambda: 0.0)
        yield


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, digests: Path, together: Path) -> Iterator[Path]:
    """No test reads or writes the user's cache. What one process has built, the others need not."""
    folder = tmp_path_factory.mktemp("cache")
    (folder / "digests").symlink_to(digests)
    (together / "builds").mkdir(exist_ok=True)
    (folder / "builds").symlink_to(together / "builds")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AUTOTUNE_CACHE_DIR", str(folder))
        assert cache_dir() == folder
        yield folder


@pytest.fixture(scope="session", autouse=True)
def no_registry() -> Iterator[None]:
    """What is known of this very machine changes no test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AUTOTUNE_REGISTRY", "none")
        yield


@pytest.fixture(scope="session")
def share_digests(digests: Path) -> Callable[[Path], None]:
    """share_digests(cache): processes with this cache need not hash the compiler, which takes seconds each."""

    def share(cache: Path) -> None:
        cache.mkdir(parents=True, exist_ok=True)
        (cache / "digests").symlink_to(digests)

    return share


@pytest.fixture(scope="session")
def warm(tmp_path_factory: pytest.TempPathFactory, share_digests: Callable[[Path], None], together: Path) -> Path:
    """A build cache, and the labels of what is in it, that tests share where building is not what they look at.

    Other processes have another cache with the same builds: whoever has the same cache waits for the same device.
    """
    folder = tmp_path_factory.mktemp("warm")
    share_digests(folder / "cache")
    for shared in ("cache/builds", "labels"):
        (together / "warm" / shared).mkdir(parents=True, exist_ok=True)
        (folder / shared).symlink_to(together / "warm" / shared)
    return folder


@pytest.fixture(scope="session")
def tools() -> Tools:
    return Tools.find()


@pytest.fixture(scope="session", autouse=True)
def _our_own_specs_are_accepted() -> Iterator[None]:
    """Whatever microkernels a test puts into a spec: `bench`, `spec merge` and `retune` take the file."""
    written = MicrokernelCarrier.text

    def vetted(carrier: MicrokernelCarrier, said: FileHeader = NOTHING) -> str:
        text = written(carrier, said)
        with program_context():
            vet_spec(ir.Module.parse(text), name="a spec of our own")
        return text

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MicrokernelCarrier, "text", vetted)
        yield


@pytest.fixture(scope="session")
def builder(tools: Tools, own_cache: Path) -> Builder:
    return Builder(tools, Cache(own_cache))


@pytest.fixture(scope="session")
def executor() -> Iterator[Executor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


@pytest.fixture(scope="session")
def make_plan(builder: Builder, executor: Executor) -> Callable[[Problem, str], Plan]:
    """make_plan(problem, target name): from the real compiler, remembered for the whole session.

    The target "plain" is the processor without stock routes: the compiler reads the problem once and not for each.
    """
    made: dict[tuple[Problem, str], Plan] = {}

    def make(problem: Problem, target: str) -> Plan:
        if (problem, target) not in made:
            chip = ONE_ROUTE if target == "plain" else Target.parse(target)
            made[problem, target] = Plan.make(
                chip.prepare(problem), chip, BuildExecutor.on(executor, builder), timeout=COMPILE_TIMEOUT
            )
        return made[problem, target]

    return make


@pytest.fixture
def make_job() -> Callable[[Plan, Candidate], BuildJob]:
    """make_job(plan, candidate): the build of a candidate."""

    def make(plan: Plan, candidate: Candidate) -> BuildJob:
        return plan.job(candidate, timeout=COMPILE_TIMEOUT)

    return make
