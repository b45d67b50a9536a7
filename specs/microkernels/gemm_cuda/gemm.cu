// Matrix products for NVIDIA's Hopper: two warps copy, groups of four multiply 64 rows each, or twice 64.
//
// Tiles come by descriptors (TMA), some steps ahead. Workgroups of a cluster share what they read (CM above one another, CN
// beside one another: each copies a part for all), the depth of a tile (SPLIT), whose sums they add up through shared
// memory, or both. Or the depth is cut into PARTS, each with sums of its own in f32, that are added up behind this
// kernel: workgroups beside one another then have the same depth of other tiles, and what they read at once comes from the
// cache once. A product of few rows is TURNED: the rows of a tile are then columns of the result, of which there are enough.
//
// Sums go into the result from registers: lanes exchange them first, so that what is put is mostly 64 bytes of a row. Where
// much is done with them (STAGED), or each of a cluster has a part of them, they go by way of shared memory: in the place of
// the steps where a workgroup has a single tile (WHOLE), else 64 columns at a time.
//
// Of f8 two numbers lie where one of f16 would: depth is counted so (DEEP), and only the instruction that multiplies differs.
typedef unsigned long long u64;
typedef unsigned u32;
typedef unsigned short u16;

#include "sizes.h"
#include "chip.h"
#include "wgmma.h"

enum : bool { WIDE = OUT_F32 || PARTS > 1 };
enum : int { OUT_BYTES = WIDE ? 4 : 2, EACH = 16 / OUT_BYTES };  // columns that a thread puts at once
enum : int { STRIP = WHOLE ? BN : 64, PITCH = STRIP * 4 + 32 };  // columns that are staged at once, and from row to row of these

#include "tiles.h"
#include "copies.h"
#include "put.h"

enum : int { THREADS = 128 * (GROUPS + 1), BEGUN = 14, COPYING = 15 };

extern "C" __global__ void __launch_bounds__(THREADS, 1)
#if CLUSTER > 1
    __cluster_dims__(CLUSTER, 1, 1)
#endif
    gemm_cuda(const u16* __restrict__ a, const u16* __restrict__ b,
#if BIAS
              const void* __restrict__ bias,
#endif
#if RESIDUAL
              const void* __restrict__ residual,
#endif
              void* __restrict__ c) {
#if !BIAS
  const void* bias = nullptr;
#endif
#if !RESIDUAL
  const void* residual = nullptr;
#endif
  extern __shared__ char memory[];
  const u32 ring = (shared_of(memory) + 1023) & ~1023u;
  const u32 strips = WHOLE ? ring : ring + STAGES * STAGE;
  const u32 barriers = ring + STAGES * STAGE + (STAGED && !WHOLE ? GROUPS * 64 * PITCH : 0);
  const u32 shifts = barriers + 256;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int rank = CLUSTER > 1 ? rank_in_cluster() : 0;
  const Steps all(ring, barriers, rank);
  const int tiles = all.tiles, clusters = all.clusters, steps = all.steps, share = SPLIT > 1 ? all.begin : 0;
  if (threadIdx.x == 0)
    for (int i = 0; i < STAGES; i++) {
      init(barriers + i * 16, 2);
      init(barriers + i * 16 + 8, GROUPS * MATES);
    }
  else if (threadIdx.x == 32) {
    prefetch(&x_map);
    prefetch(&y_map);
  }
  fence_inits();
  if (SHARED_BY > 1)
    cluster_begun();
  else if (warp >= 2)
    together(BEGUN, THREADS);
  else {  // the first copies are under way before all have begun
    together(COPYING, 64);
    been_there(BEGUN, THREADS);
  }
  if (warp < 4) {
#if GROUPS > 1
    fewer_registers<GROUPS == 3 ? 24 : 40>();
#endif
    if (warp == 0 && lane == 0) copy_all<true>(all, TURNED ? b : a);
    if (warp == 1 && lane == 0) copy_all<false>(all, TURNED ? a : b);
    __syncwarp();
    if (SPLIT > 1) {
      whole_cluster();
      whole_cluster();
    }
    return;
  }
#if GROUPS > 1
  more_registers<GROUPS == 3 ? 160 : 232>();
#endif
  const int group = warp / 4 - 1, t = threadIdx.x % 128;
  int done = 0, turn = 0;
  for (int tile = blockIdx.x / CLUSTER; tile < tiles; tile += clusters, turn++) {
    const Place at = place(tile, all.beside);
    const u32 its_bias = shifts + (group * 2 + turn % 2) * SHIFTS;  // the last tile's may still be read
    if (BIAS && !STAGED && !TURNED) bring_bias(its_bias, bias, at.column, n, t);
    float sums[HIGH][BN / 2];
#pragma unroll 1
    for (int s = 0; s < steps; s++, done++) {
      const int stage = done % STAGES;
      const u32 full = barriers + stage * 16, x = ring + stage * STAGE, before = barriers + (done + STAGES - 1) % STAGES * 16 + 8;
      wait(full, done / STAGES & 1);
      before_products();
#pragma unroll
      for (int i = 0; i < BK / 16; i++) {
        const u64 y = tile_at<Y_ACROSS>(x + X_BYTES) + i * (Y_ACROSS ? 128 : 2);
#pragma unroll
        for (int high = 0; high < HIGH; high++)
          Product<BN>::add(
              sums[high], tile_at<X_ACROSS>(x + (group * HIGH + high) * 8192) + i * (X_ACROSS ? 128 : 2), y,
              s > 0 || i > 0);
      }
      after_products();
      if (s > 0 && t < MATES) arrive(before, all.mate(t));
    }
    all_products();
    if (steps > 0 && t < MATES) arrive(barriers + (done + STAGES - 1) % STAGES * 16 + 8, all.mate(t));
    if (BIAS && !STAGED && !TURNED) {
      all_brought();
      together(group + 1, 128);
    }
    if ((STAGED || TURNED) && WHOLE) together(8, GROUPS * 128);  // all have read the last step
#pragma unroll
    for (int high = 0; high < HIGH; high++) {
      const int part = (group * HIGH + high) * 64, row = at.row + part;
      const Result to = {c, bias, residual, m, n, at.entry};
#if TURNED
      stage_turned(ring, sums[high], part, t);
#elif SPLIT > 1
#pragma unroll
      for (int j = 0; j < BN; j += 8) stage(ring + part * PITCH, sums[high] + j / 2, j, t);
#else
      if (!STAGED) put_directly(to, sums[high], row, at.column, its_bias, t);
      const u32 mine = strips + (WHOLE ? part : group * 64) * PITCH;
#pragma unroll
      for (int strip = 0; STAGED && strip < BN; strip += STRIP) {
        constexpr int LAST = BN % STRIP == 0 ? STRIP : BN % STRIP;
#pragma unroll
        for (int j = 0; j < STRIP && strip + j < BN; j += 8) stage(mine, sums[high] + (strip + j) / 2, j, t);
        together(group + 1, 128);
        if (strip + STRIP <= BN)
          put_staged<STRIP>(to, mine, row, at.column + strip, t, {});
        else
          put_staged<LAST>(to, mine, row, at.column + strip, t, {});
        if (!WHOLE) together(group + 1, 128);
      }
#endif
    }
#if TURNED
    if (SPLIT > 1)
      whole_cluster();
    else
      together(8, GROUPS * 128);
    put_turned({c, bias, residual, m, n, at.entry}, ring, at.row, at.column, group * 128 + t, {share, all.beside});
    if (SPLIT > 1) whole_cluster();
#else
    if (SPLIT > 1) {
      whole_cluster();
#pragma unroll 1
      for (int high = 0; high < HIGH; high++) {
        const int part = (group * HIGH + high) * 64;
        const Result to = {c, bias, residual, m, n, at.entry};
        put_staged<BN>(to, ring + part * PITCH, at.row + part, at.column, t, {share, all.beside});
      }
      whole_cluster();  // none leaves while another still reads its sums
    }
#endif
  }
}
