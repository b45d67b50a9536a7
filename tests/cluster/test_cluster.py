"""A real scheduler and real workers: builds, devices and a whole run there, though some of them are lost."""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from autotuner.build import Builder, BuildJob
from autotuner.cluster.coordinator import Cluster
from autotuner.cluster.facts import Facts
from autotuner.cluster.remote import PIECE_BYTES, RemoteDevice
from autotuner.cluster.worker import WorkerState
from autotuner.errors import DeviceError, EnvironmentFailure
from autotuner.iree.tools import Tools
from autotuner.measure.check import Checker, Data
from autotuner.problems import Gemm
from autotuner.problems.render import problem_mlir
from autotuner.store.store import Store
from autotuner.system.cache import Cache
from autotuner.system.execution import local_executor
from autotuner.system.progress import Progress, Stop
from autotuner.targets import Target
from autotuner.tuning.options import Options, parse_effort
from autotuner.tuning.tune import tune
from tests.support.clusters import EXAMPLE, SERVICES, LocalCluster, local_cluster, make_certificates
from tests.support.fake_tools import ONE_ROUTE
from tests.support.near_worker import near, near_device
from tests.support.patience import ENOUGH, wait_until

ROOT = Path(__file__).parents[2]
CPU = Target.parse("cpu")
SMALL = Gemm.parse(shape="16x16x16", dtype="f32")


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, tools: Tools, share_digests: Callable[[Path], None]
) -> Iterator[LocalCluster]:
    """By TLS: one worker that only builds, and one whose device is this processor. The last test ends all of them."""
    assert tools.programs  # what the workers need to know of the compiler is known before they start
    with local_cluster(tmp_path_factory.mktemp("cluster"), share_digests) as made:
        made.start("build-1")
        made.start("cpu-1", device=True)
        made.join("build-1", "cpu-1")
        yield made


@contextmanager
def joined(
    cluster: LocalCluster, tools: Tools, notes: list[str], *, wanted: str = "", timed: bool = True
) -> Iterator[Cluster]:
    own = Facts.of_this_machine(tools, builds=0)
    with (
        cluster.scheduler_of_a_coordinator() as scheduler,
        Cluster.open(scheduler, own, CPU, timed=timed, wanted=wanted, note=notes.append) as made,
    ):
        yield made


def job(size: int) -> BuildJob:
    problem = Gemm.parse(shape=f"{size}x16x16", dtype="f32")
    return BuildJob(problem_mlir(problem), CPU.compile_flags, timeout=120)


def own_builder(tools: Tools, folder: Path) -> Builder:
    return Builder(tools, Cache(folder / "coordinator"))


def test_every_service_of_the_docs_is_built_from_this_repository_and_reads_the_certificates() -> None:
    """Its command is what the other tests start."""
    for name, service in SERVICES.items():
        build = service["build"]
        assert (EXAMPLE / build["context"]).resolve() == ROOT
        assert (ROOT / build["dockerfile"]).read_text().count("[distributed,nvidia]") == 1
        assert service["volumes"] == ["/certificates:/certificates:ro"]
        assert service["environment"] == {"DASK_CONFIG": "/certificates/dask.yaml"}
        assert service["restart"] == "unless-stopped"
        if name != "scheduler":
            assert service["depends_on"] == ["scheduler"]
            assert "tls://scheduler:8786" in service["command"]
    assert SERVICES["scheduler"]["ports"] == ["8786:8786"]
    assert [name for name, one in SERVICES.items() if "profiles" in one] == ["gpu0"]


def test_builds_come_back_and_a_device_there_finds_them_right(
    cluster: LocalCluster, tools: Tools, tmp_path: Path
) -> None:
    assert "no device" in cluster.workers["build-1"].says(f" of {cluster.address}:")
    assert "local-task (cpu)" in cluster.workers["cpu-1"].says(f" of {cluster.address}:")
    notes: list[str] = []
    builder, problem = own_builder(tools, tmp_path), Gemm.parse(shape="16x24x32", dtype="f32")
    with (
        joined(cluster, tools, notes) as made,
        local_executor(1) as here,
        made.devices(isolate=False) as (device,),
    ):
        assert device.worker == "cpu-1"
        build = made.executor(builder, here).start(BuildJob(problem_mlir(problem), CPU.compile_flags, 120)).result()
        assert build.ok, build.stderr
        assert build.vmfb.is_relative_to(tmp_path), "the module is in the coordinator's own cache"
        data = Data.write(problem, tmp_path / "data", seed=1)
        assert Checker(device, data, 60).check(build.vmfb).ok
    assert notes == []


def test_the_device_that_is_named_is_taken(cluster: LocalCluster, tools: Tools) -> None:
    with joined(cluster, tools, [], wanted="CPU") as made, made.devices(isolate=True) as (device,):
        assert (device.worker, device.state) == ("cpu-1", "process")
    notes: list[str] = []
    with pytest.raises(EnvironmentFailure, match=r"has no worker with a device that can be timed: cpu-1 has another"):  # noqa: SIM117
        with joined(cluster, tools, notes, wanted="H200"):
            pass
    (refusal,) = notes
    assert refusal.startswith("worker cpu-1 is refused: it has another device (cpu: ")
    assert refusal.endswith(") than is used (H200); it only builds")


def test_who_has_no_certificate_of_its_authority_does_not_join(
    cluster: LocalCluster, tools: Tools, tmp_path: Path
) -> None:
    assert cluster.address.startswith("tls://")
    strangers = replace(cluster, dask_config=make_certificates(tmp_path / "other"))
    with pytest.raises(EnvironmentFailure, match="does not answer"), joined(strangers, tools, []):
        pass


def test_a_device_is_one_coordinators(cluster: LocalCluster, tools: Tools) -> None:
    notes: list[str] = []

    def take(second: Cluster) -> str:
        with second.devices(isolate=True) as (device,):
            return device.worker

    with joined(cluster, tools, []) as first, joined(cluster, tools, notes) as second, local_executor(1) as beside:
        with first.devices(isolate=True):
            waiting = beside.submit(take, second)
            assert wait_until(lambda: "another coordinator" in "".join(notes[-1:]))
            assert not waiting.done()
        assert waiting.result(ENOUGH) == "cpu-1"


def test_a_call_of_a_device_ends_with_its_worker(cluster: LocalCluster, tools: Tools) -> None:
    cluster.start("cpu-2", device=True)
    cluster.join("cpu-2")
    with joined(cluster, tools, []) as made, made.devices(isolate=True) as devices, local_executor(1) as beside:
        (device,) = (one for one in devices if one.worker == "cpu-2")
        cluster.workers["cpu-2"].process.send_signal(signal.SIGSTOP)
        asked = beside.submit(device.renew)
        cluster.kill("cpu-2")
        with pytest.raises(DeviceError, match=r"worker cpu-2 is lost \(.+\)\. Start it again, and go on with --resume"):
            asked.result(ENOUGH)


@dataclass
class Disaster:
    """Ends a worker when the search begins; what has raced is confirmed in few pairs."""

    cluster: LocalCluster
    stop: Stop = field(default_factory=Stop)
    notes: list[str] = field(default_factory=list)
    happened: bool = False

    def stage(self, text: str) -> None:
        if text.startswith("searching"):
            self.happened = True
            self.cluster.kill("cpu-0")
        elif text.startswith("confirming"):
            self.stop.request()

    def note(self, text: str) -> None:
        self.notes.append(text)

    def progress(self, now: Progress) -> None:
        del now


def test_a_product_is_tuned_to_a_verdict_though_a_worker_dies(cluster: LocalCluster, tmp_path: Path) -> None:
    cluster.start("cpu-0", device=True)
    cluster.join("cpu-0")
    disaster = Disaster(cluster)
    options = Options(
        effort=replace(parse_effort("quick"), race_entrants=2),
        trials=2,
        budget=ENOUGH,
        cache="warm",
        device="cpu",
        workspace=tmp_path,
        microkernels=(),
    )
    with cluster.scheduler_of_a_coordinator() as scheduler:
        options = replace(options, cluster=scheduler)
        result = tune(SMALL, ONE_ROUTE, options=options, reporter=disaster, stop=disaster.stop)
    assert disaster.happened
    assert result.verdict in ("win", "no-winner", "inconclusive")
    assert result.environment["cluster"] == cluster.address
    assert result.device == "local-task"
    assert "worker cpu-0 is gone: its work goes to others" in disaster.notes
    with Store.open(None, workspace=tmp_path) as store:
        rows = store.candidates(result.run)
    assert [row.stderr for row in rows if row.failure] == [], "no candidate is blamed for a worker"


def test_what_is_lost_is_said_and_who_joins_later_builds(cluster: LocalCluster, tools: Tools, tmp_path: Path) -> None:
    notes: list[str] = []
    with local_executor(1) as here, joined(cluster, tools, notes, timed=False) as made:
        executor = made.executor(own_builder(tools, tmp_path), here)
        for name in ("build-1", "cpu-1"):
            cluster.kill(name)
        cluster.start("late")
        cluster.join("late")
        gone = {f"worker {name} is gone: its work goes to others" for name in ("build-1", "cpu-1")}
        assert wait_until(lambda: set(notes) == gone)
        assert executor.start(job(8)).result(ENOUGH).ok
        cluster.workers["late"].process.send_signal(signal.SIGSTOP)
        build = executor.start(job(9))
        cluster.kill("late")
        with pytest.raises(EnvironmentFailure, match=r"no worker that can be used any more.* go on with --resume"):
            build.result(ENOUGH)
        with pytest.raises(EnvironmentFailure, match="no worker that can be used any more"):
            executor.start(job(9)).result(ENOUGH)
        cluster.scheduler.process.kill()
        with pytest.raises(EnvironmentFailure, match=r"is gone: .*Start it and its workers again, .* --resume"):
            executor.start(job(10)).result(ENOUGH)


# --- one worker -------------------------------------------------------------------------------------------------------


def test_a_large_file_comes_in_pieces(builder: Builder, tmp_path: Path) -> None:
    data = os.urandom(PIECE_BYTES + 1)
    (tmp_path / "large.bin").write_bytes(data)
    name = f"{hashlib.sha256(data).hexdigest()}.bin"
    device = RemoteDevice("near", near(WorkerState(builder, folder=tmp_path)), "", tmp_path, "", "process", 1.0)
    assert device._put(tmp_path / "large.bin") == tmp_path / name
    assert (tmp_path / name).read_bytes() == data


def test_a_coordinator_that_does_not_have_the_device_is_refused(tools: Tools, tmp_path: Path) -> None:
    with near_device(tools, tmp_path, "local-sync") as device:
        stranger = replace(device, session="another")
        with pytest.raises(DeviceError, match=r"it has given its device to another\. Go on with --resume"):
            stranger.renew()
        device.renew()
