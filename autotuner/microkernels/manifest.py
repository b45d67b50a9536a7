"""The manifest of a microkernel, and its binding to one problem on one chip."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from autotuner.errors import UsageError
from autotuner.microkernels.chips import is_gpu, numbers_of, object_for, subgroup_of
from autotuner.microkernels.expressions import Expression
from autotuner.microkernels.instance import (
    LARGEST,
    MOST_THREADS,
    PREBUILT,
    PROBLEM,
    Binding,
    Buffer,
    Instance,
    ObjectFile,
    Provided,
)
from autotuner.problems import Operand, Operation, Problem
from autotuner.problems.dtypes import element_type
from autotuner.problems.epilogue import OPERANDS

LONGEST_SYMBOL = 500
CHIP_NUMBERS = ("subgroup", "lanes", "units", "lds", "copies_ahead")
"""What expressions may know of a chip."""


class DoesNotFitError(UsageError):
    """A valid microkernel cannot compute this problem on this chip."""


@dataclass(frozen=True)
class Manifest:
    """`specs/microkernels/NAME/microkernel.toml`."""

    name: str
    file: Path
    summary: str
    operation: str
    dtypes: tuple[str, ...]
    layouts: tuple[str, ...]
    conditions: tuple[Expression, ...]
    symbol: str
    symbols: str
    """A regular expression of the symbols that may be bound, with numbers as named groups. Empty: only `symbol`."""
    buffers: tuple[Buffer, ...]
    constants: tuple[Expression, ...]
    workgroup_size: tuple[Expression, ...]
    local_memory: Expression
    grid: tuple[Expression, ...]
    parameters: Mapping[str, tuple[int, ...]]
    """Parameters with their values, the default first."""
    values: Mapping[str, Expression]
    objects: Mapping[str, ObjectFile]
    provider: Provided
    estimate: Expression | None = None
    """The estimated nanoseconds of a parameter choice: the search begins with the least."""
    epilogues: tuple[str, ...] = ()
    """The epilogue parts that it supports, of `autotuner.problems.epilogue.PARTS`, in any combination."""

    @property
    def chips(self) -> tuple[str, ...]:
        return tuple(self.objects) or self.provider.chips

    def describe(self) -> dict[str, object]:
        """An entry of `autotune ab --list --json`."""
        return {
            "name": self.name,
            "op": self.operation,
            "dtypes": list(self.dtypes),
            "layouts": list(self.layouts),
            "targets": list(self.chips),
            "provider": self.provider.kind,
            "epilogues": list(self.epilogues),
            "parameters": {name: list(values) for name, values in self.parameters.items()},
            "symbol": self.symbol,
            "summary": self.summary,
            "file": str(self.file),
        }

    def settings(self) -> Iterator[dict[str, int]]:
        """All parameter choices, the defaults first."""
        for values in itertools.product(*self.parameters.values()):
            yield dict(zip(self.parameters, values, strict=True))

    def fit(
        self,
        problem: Problem,
        chip: str,
        *,
        parameters: Mapping[str, int] | None = None,
        symbol: str | None = None,
        features: Collection[str] = (),
    ) -> dict[str, int]:
        """The numbers that expressions may use, or a refusal; nothing is built for it.

        `features` are the processor's, by LLVM's names.
        """
        return self.choose(self.given(problem, chip, symbol=symbol, features=features), parameters or {})

    def given(
        self, problem: Problem, chip: str, *, symbol: str | None = None, features: Collection[str] = ()
    ) -> dict[str, int]:
        """The numbers that all parameter choices share, or a refusal of all of them."""
        numbers = {
            **self.declared(problem, chip).variables(),
            **dict(zip(CHIP_NUMBERS, numbers_of(chip, features), strict=True)),
            **self._checked({}),
        }
        if self.symbols:
            numbers |= self.read_symbol(symbol or self.symbol)
        elif symbol not in (None, self.symbol):
            raise UsageError(f"{self.name} has no kernel {symbol!r}.", remedy=f"It has {self.symbol}.")
        self._go_on(numbers, self._steps[False])
        return numbers

    def read_symbol(self, symbol: str) -> dict[str, int]:
        """The numbers in a symbol: 0 where a part is missing, 1 where it is a word."""
        found = re.fullmatch(self.symbols, symbol) if len(symbol) <= LONGEST_SYMBOL else None
        if found is None:
            raise UsageError(
                f"{symbol[:200]!r} is not the name of a kernel of {self.name}.", remedy=f"Give one like {self.symbol}."
            )
        return {name: int(text) if text.isdecimal() else 1 for name, text in found.groupdict("0").items()}

    def choose(self, given: Mapping[str, int], parameters: Mapping[str, int]) -> dict[str, int]:
        """All numbers for a parameter choice, from those `given` for every choice; or a refusal."""
        numbers = {**given, **self._checked(parameters)}
        self._go_on(numbers, self._steps[True])
        return numbers

    def choices(self, numbers: Mapping[str, int], *, level: int = 0) -> Iterator[dict[str, int] | DoesNotFitError]:
        """All numbers for each parameter choice that fits, in the order of `settings`; and why others do not, once for
        all that begin alike."""
        if level == len(self.parameters):
            yield {**numbers}
            return
        name, values = list(self.parameters.items())[level]
        for value in values:
            known = {**numbers, name: value}
            try:
                self._go_on(known, self._levels[level])
            except DoesNotFitError as error:
                yield error
            else:
                yield from self.choices(known, level=level + 1)

    @cached_property
    def _levels(self) -> list[list[tuple[str, Expression]]]:
        """What depends on the parameters, by the last one that it takes."""
        known = {name: level for level, name in enumerate(self.parameters)}
        levels: list[list[tuple[str, Expression]]] = [[] for _ in known]
        for name, expression in self._steps[True]:
            level = max(known.get(taken, 0) for taken in expression.names)
            levels[level].append((name, expression))
            if name:
                known[name] = level
        return levels

    def _go_on(self, numbers: dict[str, int], steps: Iterable[tuple[str, Expression]]) -> None:
        for name, expression in steps:
            if name:
                numbers[name] = self._evaluate(f"values.{name}", expression, numbers)
            else:
                self._hold(expression, numbers)

    @cached_property
    def _steps(self) -> Mapping[bool, list[tuple[str, Expression]]]:
        """Values by name and conditions (without a name), split by whether they depend on the parameters.

        Most choices fit nowhere, so a condition is checked as soon as all its values are known.
        """
        steps: dict[bool, list[tuple[str, Expression]]] = {False: [], True: []}
        waiting, later = list(self.conditions), list(self.values)
        for name in ("", *self.values):
            if name:
                later.remove(name)
                steps[name in self.chosen].append((name, self.values[name]))
            ready = [condition for condition in waiting if condition.names.isdisjoint(later)]
            waiting = [condition for condition in waiting if condition not in ready]
            for condition in ready:
                steps[bool(condition.names & self.chosen)].append(("", condition))
        return steps

    @cached_property
    def chosen(self) -> frozenset[str]:
        """Names whose values depend on the parameter choice."""
        names = {name for name, choices in self.parameters.items() if len(choices) > 1}
        for name, value in self.values.items():  # each of those before it
            if value.names & names:
                names.add(name)
        return frozenset(names)

    def expected(self, numbers: Mapping[str, int]) -> int:
        """The estimated nanoseconds, from the numbers of `fit`; 0 without an estimate."""
        return self._evaluate("estimate", self.estimate, numbers, wide=True) if self.estimate else 0

    def moves(self, problem: Problem) -> bool:
        """Whether IREE transposes its first operand or its result around the call."""
        declared = self._declared(problem)
        passed = [one for one in self.buffers if one.operand == declared.operand_names[0] or one.access == "write"]
        orders = [declared.permutation(one.operand, one.layout) for one in passed if one.layout]
        return any(order is not None and order != tuple(sorted(order)) for order in orders)

    def _hold(self, condition: Expression, numbers: Mapping[str, int]) -> None:
        if not self._evaluate("conditions", condition, numbers):
            given = ", ".join(f"{name} = {numbers[name]}" for name in sorted(condition.names))
            raise self._unfit(f"it needs {condition.text}, and here {given}.", "Choose another shape or kernel.")

    def bind(
        self,
        problem: Problem,
        chip: str,
        *,
        objects: Sequence[Path] = (),
        parameters: Mapping[str, int] | None = None,
        symbol: str | None = None,
        features: Collection[str] = (),
        reports: Mapping[str, int] | None = None,
    ) -> Instance:
        """The kernel for this problem and chip, with the user's or provider's `objects`, else the manifest's own.

        `reports` are numbers that a provider knows once the object is built.
        """
        numbers = self.fit(problem, chip, parameters=parameters, symbol=symbol, features=features)
        kernel = symbol or self.symbol
        buffers = self.bound(problem, numbers)
        bindings = tuple(self._binding(buffer, problem, numbers) for buffer in buffers)
        numbers |= reports or {}
        workgroup = self._sizes("workgroup_size", self.workgroup_size, numbers, most=MOST_THREADS)
        if math.prod(workgroup) > MOST_THREADS:
            raise self._unfit(f"its workgroup has {math.prod(workgroup)} threads.", f"{MOST_THREADS} are the most.")
        memory = self._evaluate("local_memory", self.local_memory, numbers)
        if memory < 0:
            raise self._unfit(f"local memory of {memory} bytes.", "Correct the manifest.")
        chosen = "".join(f"-{name}{numbers[name]}" for name, values in self.parameters.items() if len(values) > 1)
        return Instance(
            name=self.name + chosen,
            symbol=kernel,
            chip=chip,
            objects=self._objects(chip, objects),
            bindings=bindings,
            constants=tuple(self._evaluate("constants", value, numbers) for value in self.constants),
            workgroup_size=workgroup,
            subgroup_size=subgroup_of(chip) if is_gpu(chip) else None,
            local_memory=memory,
            grid=self._sizes("grid", self.grid, numbers, most=LARGEST),
        )

    def bound(self, problem: Problem, numbers: Mapping[str, int]) -> tuple[Buffer, ...]:
        """The buffers of a call: the problem's operands, and the scratch that these numbers ask for."""
        there = self._declared(problem).operand_names
        return tuple(b for b in self.buffers if b.operand in there or (b.is_scratch and self._bytes(b, numbers)))

    def declared(self, problem: Problem, chip: str) -> Operation:
        """The problem, if the manifest declares it for this chip; conditions are not checked yet."""
        declared = self._declared(problem)
        if self.provider.chips and chip not in self.provider.chips:
            known = ", ".join(self.provider.chips)
            raise self._unfit(f"it is not for {chip}.", f"It is for: {known}. --chip names the GPU that will run it.")
        return declared

    def _declared(self, problem: Problem) -> Operation:
        """The problem as the manifest's operation, if the manifest declares it."""
        dtype, views = problem.types[0], problem.views() if isinstance(problem, Operation) else ()
        view = next((view for view in views if view.op == self.operation), None)
        if view is None:
            raise self._unfit(f"it computes {self.operation}, not {problem.op}.", f"Give a {self.operation} problem.")
        if dtype not in self.dtypes:
            raise self._unfit(f"it does not compute {dtype}.", f"It computes: {', '.join(self.dtypes)}.")
        if view.layout not in self.layouts:
            raise self._unfit(f"it does not take layout {view.layout}.", f"It takes: {', '.join(self.layouts)}.")
        able = {*self.epilogues, *(("relu",) if "clip" in self.epilogues else ())}
        if missing := [part for part in view.epilogue.parts if part not in able]:
            ends = f"It ends with: {', '.join(self.epilogues)}." if self.epilogues else "It has no epilogues."
            raise self._unfit(f"it does not end with {missing[0]}.", ends)
        return view

    def _checked(self, parameters: Mapping[str, int]) -> dict[str, int]:
        chosen = {name: values[0] for name, values in self.parameters.items()}
        for name, value in parameters.items():
            if name not in self.parameters:
                known = ", ".join(self.parameters) or "none"
                raise UsageError(f"{self.name} has no parameter {name!r}.", remedy=f"It has: {known}.")
            if value not in self.parameters[name]:
                possible = ", ".join(map(str, self.parameters[name]))
                raise UsageError(f"{self.name}: {name} cannot be {value}.", remedy=f"Choose one of: {possible}.")
            chosen[name] = value
        return chosen

    def _objects(self, chip: str, given: Sequence[Path]) -> tuple[Path, ...]:
        if given:
            return tuple(path.absolute() for path in given)
        if self.provider.kind != PREBUILT:
            raise UsageError(f"{self.name} is built from source.", remedy="Let its provider build the object first.")
        match = object_for(chip, tuple(self.objects))
        if match is None:
            have = f"It has objects for: {', '.join(self.objects)}." if self.objects else "It comes without objects:"
            raise self._unfit(f"it has no object for {chip}.", f"{have} Give one yourself.")
        return (self.objects[match].verified(),)

    @property
    def _out_element(self) -> str:
        """The type of epilogue operands: that of the output, unless the manifest names another."""
        return next(buffer.element for buffer in self.buffers if buffer.access == "write")

    def _bytes(self, buffer: Buffer, numbers: Mapping[str, int]) -> int:
        size = self._evaluate("bytes", buffer.bytes, numbers)
        if not 0 <= size <= LARGEST:
            raise self._unfit(f"its scratch has {size} bytes.", f"{LARGEST} are the most.")
        return size

    def _binding(self, buffer: Buffer, problem: Problem, numbers: Mapping[str, int]) -> Binding:
        if buffer.is_scratch:
            zeroed = bool(self._evaluate("zeroed", buffer.zeroed, numbers))
            return Binding.scratch(self._bytes(buffer, numbers), zeroed=zeroed)
        declared = self._declared(problem)
        index = declared.operand_names.index(buffer.operand)
        own = declared.operands[index]
        layout = buffer.layout or declared.dimensions(buffer.operand)
        order = declared.permutation(buffer.operand, layout)
        if order is None:
            have = declared.dimensions(buffer.operand)
            raise self._unfit(f"it wants {buffer.operand} as {layout}; the problem has it as {have}.", "")
        element = own.element
        said = self._out_element if buffer.element == PROBLEM and buffer.operand in OPERANDS else buffer.element
        if said != PROBLEM:
            element = element_type(said)
        if self._evaluate("widened", buffer.widened, numbers):
            element = element_type("f32")
        parts = self._evaluate("parts", buffer.parts, numbers)
        if parts < 1:
            raise self._unfit(f"results in {parts} parts.", "One is the least.")
        if parts > 1 and element.is_float:
            element = element_type("f32")  # rounded once, when they are added up
        converted = buffer.access == "write" and element.is_float and own.element.is_float
        if element != own.element and not converted:
            raise self._unfit(f"it has {buffer.operand} as {element.name}, not {own.element.name}.", "")
        shape = tuple(own.shape[axis] for axis in order)
        width = self._evaluate("panels", buffer.panels, numbers)
        if width < 0:
            raise self._unfit(f"panels of {width}.", "0 is the least.")
        binding = Binding(
            operand=index,
            access=buffer.access,
            tensor=Operand(shape, element),
            permutation=() if order == tuple(sorted(order)) else order,
            zeroed=bool(self._evaluate("zeroed", buffer.zeroed, numbers)),
            parts=parts,
        )
        pitch = self._evaluate("pitch", buffer.pitch, numbers)
        if pitch and (pitch < shape[-1] or width or binding.permutation):
            why = f"{buffer.operand} has rows of {shape[-1]} numbers, and cannot have a pitch of {pitch}."
            raise self._unfit(
                why, "A pitch is no shorter than a row, and not for operands that are transposed or packed."
            )
        if not width:
            return binding.in_rows(pitch) if pitch else binding
        letters = "".join(declared.dimensions(buffer.operand)[axis] for axis in order)
        if buffer.panelled not in letters:
            raise self._unfit(f"it wants panels of {buffer.panelled}, which {buffer.operand} does not have here.", "")
        return binding.in_panels(letters.index(buffer.panelled), width, lead=int(letters[0] in "bg"))

    def _sizes(
        self, key: str, expressions: Sequence[Expression], numbers: Mapping[str, int], *, most: int
    ) -> tuple[int, int, int]:
        sizes = [self._evaluate(key, expression, numbers) for expression in expressions]
        for expression, size in zip(expressions, sizes, strict=True):
            if not 1 <= size <= most:
                raise self._unfit(f"{key}: {expression.text} gives {size}.", f"It must be 1 to {most}.")
        x, y, z = (*sizes, 1, 1)[:3]
        return x, y, z

    def _evaluate(self, key: str, expression: Expression, numbers: Mapping[str, int], *, wide: bool = False) -> int:
        try:
            return expression.evaluate(numbers, wide=wide)
        except UsageError as error:
            raise UsageError(f"{self.file}: {key}: {error.message}", remedy=error.remedy) from None

    def _unfit(self, why: str, remedy: str) -> DoesNotFitError:
        return DoesNotFitError(f"{self.name}: {why}", remedy=remedy)
