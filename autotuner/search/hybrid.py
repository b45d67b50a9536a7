"""Half TPE, half unseen neighbours of the best: the one finds the region, the other the bottom of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autotuner.search.grid import Grid, Rows
from autotuner.search.tpe import Tpe
from autotuner.space.table import Config

STARTUP = 16
PARENTS = 5
PICK = "robin"
SPREAD = True
TPE_SHARE = 0.5
LAM=0.01
ALT=False
CLIP=False
MIX=False
LEN=3.0
KAPPA=1.0

class HybridSearch:
    def __init__(self, grid: Grid, *, seed: int, first: Sequence[int]) -> None:
        self._grid = grid
        self._rng = np.random.default_rng(seed)
        self._first = list(dict.fromkeys(first))
        self._tpe = Tpe(grid, seed=int(self._rng.integers(2**31)))
        self._values: dict[int, float | None] = {}
        self._asked = 0
        self._turn = 0
        self._near: dict[int, Rows] = {}
        self._robin = 0

    def ask(self, count: int) -> list[Config]:
        batch: list[int] = []
        while len(batch) < count:
            row = self._next()
            if row is None:
                break
            self._grid.take(row)
            self._tpe.start(row)
            batch.append(row)
        return [self._grid.config(row) for row in batch]

    def tell(self, config: Config, value: float | None) -> None:
        row = self._grid.space.index(config)
        if row is None or row in self._values:
            return
        self._grid.take(row)
        self._values[row] = value
        self._tpe.finish(row, value)

    def _next(self) -> int | None:
        while self._first:
            row = self._first.pop(0)
            if self._grid.free[row]:
                self._asked += 1
                return row
        self._asked += 1
        if self._asked <= STARTUP or not any(v is not None for v in self._values.values()):
            return self._scatter()
        self._turn += 1
        if int(self._turn * TPE_SHARE) == int((self._turn - 1) * TPE_SHARE):
            row2 = self._neighbour()
            if row2 is not None:
                return row2
        return self._grid.nearest_free(self._tpe.propose(), self._rng)

    def _scatter(self) -> int | None:
        free = np.flatnonzero(self._grid.free)
        if not len(free):
            return None
        if not SPREAD:
            return int(self._rng.choice(free))
        pool = self._rng.choice(free, size=min(64, len(free)), replace=False)
        taken = np.flatnonzero(~self._grid.free)
        if not len(taken):
            return int(pool[0])
        d = (self._grid.columns[:, pool][:, :, None] != self._grid.columns[:, taken][:, None, :]).sum(axis=0)
        return int(pool[d.min(axis=1).argmax()])

    def _parents(self) -> list[int]:
        good = [(v, r) for r, v in self._values.items() if v is not None]
        return [r for _, r in sorted(good)[:PARENTS]]

    def _neighbour(self) -> int | None:
        parents = self._parents()
        pools = []
        for parent in parents:
            if parent not in self._near:
                self._near[parent] = self._grid.neighbours(parent)
            near = self._near[parent]
            pools.append(near[self._grid.free[near]])
        if PICK == "robin":
            for k in range(len(pools)):
                pool = pools[(self._robin + k) % len(pools)]
                if len(pool):
                    self._robin = (self._robin + k + 1) % len(pools)
                    return int(self._rng.choice(pool))
            return None
        if PICK == "best":
            for pool in pools:
                if len(pool):
                    return int(self._rng.choice(pool))
            return None
        union = np.unique(np.concatenate(pools)) if pools else np.array([], np.int64)
        if not len(union):
            return None
        if PICK == "knob":
            moves = {}
            for parent, pool in zip(parents, pools):
                for j, col in enumerate(self._grid.columns):
                    m = pool[col[pool] != col[parent]]
                    if len(m):
                        moves[(parent, j)] = m
            keys = list(moves)
            return int(self._rng.choice(moves[keys[self._rng.integers(len(keys))]]))
        if PICK == "union":
            return int(self._rng.choice(union))
        self._flip = not getattr(self, "_flip", False)
        if ALT and self._flip:
            return int(self._rng.choice(union))
        return int(union[self._score(union).argmin()])

    def _score(self, rows: Rows):
        known = [r for r, v in self._values.items() if v is not None]
        y = np.array([self._values[r] for r in known])
        w = np.ones(len(y))
        y = np.minimum(y, np.median(y)) if CLIP else y
        mean = y.mean()
        if PICK == "ridge":
            def hot(rs):
                return np.concatenate([(self._grid.columns[j][rs][:, None] == np.arange(len(k.values))[None]) for j, k in enumerate(self._grid.knobs)], axis=1).astype(float)
            A = hot(np.array(known))
            beta = np.linalg.solve(A.T @ A + LAM * np.eye(A.shape[1]), A.T @ (y - mean))
            return hot(rows) @ beta
        c = self._grid.columns
        def dist(a, b):
            d = np.zeros((len(a), len(b)))
            for j, k in enumerate(self._grid.knobs):
                diff = np.abs(c[j][a][:, None].astype(float) - c[j][b][None])
                d += np.where(diff > 0, 0.5 + 0.5 * diff / max(len(k.values) - 1, 1), 0.0) if k.ordered and MIX else diff > 0
            return d
        pend = [r for r in np.flatnonzero(~self._grid.free) if r not in self._values]
        ka = np.array(known)
        sd = y.std() + 1e-9
        K = np.exp(-dist(ka, ka) / LEN) + LAM * np.eye(len(ka))
        ks = np.exp(-dist(rows, ka) / LEN)
        mu = ks @ np.linalg.solve(K, (y - mean) / sd)
        kp = np.array([*known, *pend])
        K2 = np.exp(-dist(kp, kp) / LEN) + LAM * np.eye(len(kp))
        ks2 = np.exp(-dist(rows, kp) / LEN)
        var = 1 - np.einsum("ij,ji->i", ks2, np.linalg.solve(K2, ks2.T))
        return mu - KAPPA * np.sqrt(np.maximum(var, 0))
