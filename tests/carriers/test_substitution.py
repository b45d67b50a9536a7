"""The second carrier: what a spec cannot reach is substituted whole, and the proof is the executable that was used."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import replace

import numpy as np
import pytest

from autotuner.build import Builder, BuildJob, Compiled
from autotuner.carriers.carrier import FileHeader
from autotuner.carriers.render import MARKER, Executable, configure, find_executable
from autotuner.devices.process import ProcessDevice
from autotuner.iree.tools import Tools
from autotuner.measure.check import Checker, Data
from autotuner.problems import Problem
from autotuner.problems.conv import Conv
from autotuner.space import Config
from autotuner.tuning.plan import Candidate, Plan

MakePlan = Callable[[Problem, str], Plan]
MakeJob = Callable[[Plan, Candidate], BuildJob]
ONE_IMAGE = Conv.parse(shape="1x12x12x16", filter="3x3x32", pad="1x1", dtype="f32")


def plain(plan: Plan, count: int) -> list[Candidate]:
    """The compiler's own choice on the plain route, and random others."""
    rows = np.random.default_rng(0).permutation(len(plan.space))
    configs = [c for c in (plan.space[int(r)] for r in rows) if c["route"] == "plain"][: count - 1]
    first = next(c for c in plan.first if c["route"] == "plain")
    return [plan.candidate(config, id=f"c{i}") for i, config in enumerate(dict.fromkeys([first, *configs]))]


def test_a_convolution_of_one_image_is_substituted_and_of_two_is_not(make_plan: MakePlan) -> None:
    one = make_plan(ONE_IMAGE, "plain")
    assert set(one.executables) == {"plain", "channels-last"} & set(one.cpu)
    assert any("substituted executable" in note for note in one.notes)
    (candidate,) = plain(one, 1)
    assert candidate.carrier.name == "substitution"
    assert candidate.carrier.carried().spec_flag == "--iree-hal-substitute-executable-configuration=main_dispatch_1"
    two = make_plan(replace(ONE_IMAGE, n=2), "plain")
    assert two.executables == {}
    assert plain(two, 1)[0].carrier.name == "spec"


def test_substituted_configurations_are_built_proven_and_right(
    make_plan: MakePlan,
    make_job: MakeJob,
    builder: Builder,
    executor: Executor,
    tools: Tools,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    plan = make_plan(ONE_IMAGE, "plain")
    jobs = [make_job(plan, c) for c in plain(plan, 4)]
    builds: list[Compiled] = list(executor.map(builder.build, [*jobs, replace(jobs[1], repeat=4)]))
    assert [(b.failure, b.applied) for b in builds] == [(None, 1)] * len(builds)
    assert len({b.binary for b in builds}) >= 3
    assert builds[-1].binary == builds[1].binary
    data = Data.write(ONE_IMAGE, tmp_path_factory.mktemp("data"), seed=1)
    checks = [
        Checker(ProcessDevice(tools, "local-sync", data.folder), data, timeout=60).check(build.vmfb) for build in builds
    ]
    assert [check.detail for check in checks if not check.ok] == []


def test_an_executable_of_another_name_is_not_applied(make_plan: MakePlan, make_job: MakeJob, builder: Builder) -> None:
    plan = make_plan(ONE_IMAGE, "plain")
    job = make_job(plan, plain(plan, 1)[0])
    build = builder.build(replace(job, spec_flag=job.spec_flag.replace("dispatch_1", "dispatch_7")))
    assert build.failure == "not-applied"


def test_a_substituted_executable_with_another_configuration_is_not_applied(
    make_plan: MakePlan, make_job: MakeJob, builder: Builder
) -> None:
    plan = make_plan(ONE_IMAGE, "plain")
    one, other = plain(plan, 2)
    build = builder.build(replace(make_job(plan, one), expected=other.info))
    assert build.failure == "not-applied"
    assert "not the spec's" in build.stderr


def test_fused_operations_follow_the_vectors_of_the_root(make_plan: MakePlan) -> None:
    plan = make_plan(ONE_IMAGE, "plain")
    candidate = plain(plan, 3)[2]
    text = candidate.carrier.carried(FileHeader(header=["one line", "another"])).spec
    assert text is not None
    assert text.startswith("// one line\n// another\n")
    assert text.count(MARKER) == 1
    assert "root_op" not in text
    vector = dict(plan.cpu["plain"].tiling(Config(candidate.config.items)).levels)["vector_common_parallel"]
    own = ", ".join(map(str, vector[:4]))
    assert f"#iree_cpu.lowering_config<vector_common_parallel = [{own}]>" in text


def test_the_executable_with_the_most_work_is_found(make_plan: MakePlan) -> None:
    plan = make_plan(ONE_IMAGE, "plain")
    executable = plan.executables["plain"]
    assert find_executable([executable.text]) == executable
    assert find_executable(["module {}"]) is None
    info = plain(plan, 1)[0].info
    assert info is not None
    with pytest.raises(ValueError, match="no operation to configure"):
        configure(Executable("none", "module {}"), info, fused={}, marker=MARKER)
