"""Every file that the C compiler reads is part of an object's key, by the compiler's own account."""

from __future__ import annotations

import platform
import shutil
from pathlib import Path

import pytest

from autotuner.errors import UsageError
from autotuner.microkernels.providers.c import ObjectRefusalError, compile_object
from autotuner.microkernels.providers.c_reads import prerequisites

pytestmark = pytest.mark.skipif(
    not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="there is no C compiler on this machine"
)


def built(source: Path) -> Path:
    return compile_object(source, {}, chip=platform.machine(), timeout=60)


@pytest.mark.parametrize("name", ["beside.h", "sub/folder/part.h", "table.inc", "other.c", "with blank.h", "a$b#c.h"])
def test_an_included_file_that_changes_changes_the_object(tmp_path: Path, name: str) -> None:
    source, included = tmp_path / "kernel.c", tmp_path / name
    included.parent.mkdir(parents=True, exist_ok=True)
    source.write_text(f'#include "{name}"\nint kernel(void) {{ return ANSWER; }}\n')
    included.write_text("#define ANSWER 1\n")
    first = built(source)
    assert built(source) == first
    included.write_text("#define ANSWER 2\n")
    assert built(source).read_bytes() != first.read_bytes()


def test_a_header_that_is_included_by_a_header_counts(tmp_path: Path) -> None:
    (tmp_path / "outer.h").write_text('#include "inner.inc"\n')
    (tmp_path / "inner.inc").write_text("#define ANSWER 1\n")
    source = tmp_path / "kernel.c"
    source.write_text('#include "outer.h"\nint kernel(void) { return ANSWER; }\n')
    first = built(source)
    (tmp_path / "inner.inc").write_text("#define ANSWER 2\n")
    assert built(source) != first


def test_a_file_beside_the_source_that_nobody_includes_does_not_count(tmp_path: Path) -> None:
    source = tmp_path / "kernel.c"
    source.write_text("int kernel(void) { return 1; }\n")
    first = built(source)
    (tmp_path / "unused.h").write_text("#error\n")
    assert built(source) == first


def test_a_header_that_is_missing_is_the_sources_fault(tmp_path: Path) -> None:
    source = tmp_path / "kernel.c"
    source.write_text('#include "missing.h"\n')
    with pytest.raises(ObjectRefusalError, match=r"missing\.h"):
        built(source)


@pytest.mark.parametrize("directive", [".incbin", ".include"])
def test_what_only_the_assembler_reads_is_refused(tmp_path: Path, directive: str) -> None:
    source = tmp_path / "kernel.c"
    source.write_text(f'__asm__("{directive} \\"data.bin\\"");\n')
    with pytest.raises(UsageError, match="assembler") as caught:
        built(source)
    assert "#include" in caught.value.remedy


def test_a_rule_is_read_with_its_escapes() -> None:
    rule = "x: /a/k.c \\\n  /a/with\\ blank.h /a/x\\#y.h \\\n /a/cost$$.h /a/k.c\n"
    assert prerequisites(rule) == [Path(f"/a/{name}") for name in ("k.c", "with blank.h", "x#y.h", "cost$.h")]
