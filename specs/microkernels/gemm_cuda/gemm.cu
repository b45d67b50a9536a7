// Matrix products for NVIDIA's Hopper: two warps copy, groups of four multiply 64 rows each, or twice 64. Where rows are
// normed first (NORM), two more read what is copied of them and give the groups a factor for each.
//
// Tiles come by descriptors (TMA), some steps ahead. Workgroups of a cluster either share what they read (CM above one
// another, CN beside one another: each copies a part for all) or the depth of one tile (SPLIT), whose sums they add up
// through shared memory.
//
// Sums go through shared memory, too, and leave it as whole lines: where a workgroup has a single tile (WHOLE), all at once
// in the place of the steps; else 64 columns at a time. Where little is done with them (PLAIN) that is before, and the
// copies are asynchronous; else a short loop has all of the epilogue, as many instructions at the end of a kernel take
// longer to be fetched than to be run.
typedef unsigned long long u64;
typedef unsigned u32;
typedef unsigned short u16;

#include "wgmma.h"

constexpr int BK = 64, SHARED_BY = CM * CN;
constexpr int X_BYTES = BM * BK * 2, Y_BYTES = BN * BK * 2, STAGE = X_BYTES + Y_BYTES;
constexpr int OUT_BYTES = OUT_F32 ? 4 : 2, EACH = 16 / OUT_BYTES;  // columns that a thread puts at once
constexpr bool PLAIN = !RESIDUAL && !ACTIVATION && !GATED && SPLIT == 1;
constexpr int STRIP = WHOLE ? BN : 64;                             // columns that are on their way to the result at once,
constexpr int PITCH = STRIP * (PLAIN ? OUT_BYTES : 4) + (PLAIN && !OUT_F32 ? 16 : 32);  // and from row to row of these

__device__ __forceinline__ u32 shared_of(const void* p) { return (u32)__cvta_generic_to_shared(p); }

__device__ __forceinline__ void init(u32 barrier, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count));
}

__device__ __forceinline__ void expect(u32 barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ __forceinline__ void wait(u32 barrier, u32 parity) {
  asm volatile(
      "{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra AGAIN; }" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// In the workgroup of this rank. Nothing but the end of reads is told by it: a fence would take longer than a step.
__device__ __forceinline__ void arrive(u32 barrier, u32 rank) {
  if (SHARED_BY > 1)
    asm volatile(
        "{ .reg .b32 r; mapa.shared::cluster.u32 r, %0, %1; mbarrier.arrive.shared::cluster.b64 _, [r]; }" ::"r"(barrier),
        "r"(rank)
        : "memory");
  else
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ __forceinline__ void send(u32 to, u64 map, int column, int row, u32 barrier, bool to_all) {
  if (to_all)
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, "
        "%3}], [%4], %5;" ::"r"(to),
        "l"(map), "r"(column), "r"(row), "r"(barrier), "h"((u16)((1 << SHARED_BY) - 1))
        : "memory");
  else
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
            to),
        "l"(map), "r"(column), "r"(row), "r"(barrier)
        : "memory");
}

#define SET(field, bits, ...) asm volatile("tensormap.replace.tile." field ".shared::cta.b1024." bits __VA_ARGS__ : "memory")

// What a whole warp does: makes the descriptor of a matrix, in boxes of 64 columns, in shared memory and has it at `to`.
__device__ __forceinline__ void describe(u32 at, u64 to, const void* matrix, u32 rows, u32 columns, u32 box, int lane) {
  asm volatile("st.shared.b32 [%0], 0;" ::"r"(at + lane * 4) : "memory");
  __syncwarp();
  if (lane == 0) {
    SET("global_address", "b64", " [%0], %1;" ::"r"(at), "l"((u64)matrix));
    SET("rank", "b32", " [%0], 1;" ::"r"(at));
    SET("box_dim", "b32", " [%0], 0, 64;" ::"r"(at));
    SET("box_dim", "b32", " [%0], 1, %1;" ::"r"(at), "r"(box));
    SET("global_dim", "b32", " [%0], 0, %1;" ::"r"(at), "r"(columns));
    SET("global_dim", "b32", " [%0], 1, %1;" ::"r"(at), "r"(rows));
    SET("global_stride", "b64", " [%0], 0, %1;" ::"r"(at), "l"((u64)columns * 2));
    SET("element_stride", "b32", " [%0], 0, 1;" ::"r"(at));
    SET("element_stride", "b32", " [%0], 1, 1;" ::"r"(at));
    SET("elemtype", "b32", " [%0], %1;" ::"r"(at), "n"(LHS_BF16 ? 10 : 6));
    SET("interleave_layout", "b32", " [%0], 0;" ::"r"(at));
    SET("swizzle_mode", "b32", " [%0], 3;" ::"r"(at));
    SET("fill_mode", "b32", " [%0], 0;" ::"r"(at));
  }
  __syncwarp();
  asm volatile(
      "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;" ::"l"(to),
      "r"(at)
      : "memory");
}

// A tile in shared memory as the matrix units read it: rows of 64 along the depth, or (ACROSS) 64 of the depth by 64.
template <int ACROSS>
__device__ __forceinline__ u64 tile_at(u32 at) {
  return (u64)((at & 0x3ffff) >> 4) | (u64)(ACROSS ? 8192 >> 4 : 1) << 16 | (u64)(1024 >> 4) << 32 | 1ull << 62;
}

struct Place {
  int entry, row, column;
};

// Tiles go in groups of eight rows, so that those that run together share what they read.
__device__ __forceinline__ Place place(int tile, int m, int n, int rank) {
  const int high = (m + BM * CM - 1) / (BM * CM), wide = (n + BN * CN - 1) / (BN * CN);
  const int entry = tile / (high * wide), of_entry = tile % (high * wide);
  const int group = of_entry / (8 * wide), within = of_entry % (8 * wide), rows = min(high - group * 8, 8);
  return {entry, ((group * 8 + within % rows) * CM + (CM > 1 ? rank : 0)) * BM,
          (within / rows * CN + (CN > 1 ? rank : 0)) * BN};
}

__device__ __forceinline__ float bits(u32 from) { return __uint_as_float(from); }

__device__ __forceinline__ float finished(float x) {
#if CLIP_LOW
  asm("max.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(bits(LOW_BITS)));
#endif
#if CLIP_HIGH
  asm("min.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(bits(HIGH_BITS)));
#endif
#if ACTIVATION == 1
  // Half of erfc is a power of two whose exponent is a polynomial, good to 2e-7.
  const float size = fabsf(x);
  float tail = (-1e-6f * size + 2.809349249e-05f) * size - 0.00068854891668f;
  tail = ((tail * size + 0.0078020218107f) * size - 0.053002368086f) * size - 0.45904730179f;
  tail = (tail * size - 1.1511236555f) * size - 0.99999966318f;
  asm("ex2.approx.f32 %0, %0;" : "+f"(tail));
  return x * (x >= 0.0f ? 1.0f - tail : tail);
#elif ACTIVATION == 2
  return x / (1.0f + __expf(-2.0f * bits(FACTOR_BITS) * (x + 0.044715f * x * x * x)));
#elif ACTIVATION == 3
  return x / (1.0f + __expf(-x));
#elif ACTIVATION == 4 || ACTIVATION == 6
  float part = x + 3.0f;
  asm("max.NaN.f32 %0, %0, 0f00000000;\n\tmin.NaN.f32 %0, %0, 0f40C00000;" : "+f"(part));
  return (ACTIVATION == 4 ? x : 1.0f) * part * (1.0f / 6.0f);
#elif ACTIVATION == 5
  return 1.0f / (1.0f + __expf(-x));
#else
  return x;
#endif
}

__device__ __forceinline__ float widened(u16 from, bool bf16) {
  float x;
  if (bf16) return bits((u32)from << 16);
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(from));
  return x;
}

// EACH numbers that lie one behind another are added.
template <bool F32, bool BF16>
__device__ __forceinline__ void add_from(float (&sums)[EACH], const void* from, u64 at) {
#pragma unroll
  for (int i = 0; i < EACH; i += 4) {
    if (F32) {
      const float4 more = *(const float4*)((const float*)from + at + i);
      sums[i] += more.x, sums[i + 1] += more.y, sums[i + 2] += more.z, sums[i + 3] += more.w;
    } else {
      const uint2 more = *(const uint2*)((const u16*)from + at + i);
      sums[i] += widened((u16)more.x, BF16), sums[i + 1] += widened((u16)(more.x >> 16), BF16);
      sums[i + 2] += widened((u16)more.y, BF16), sums[i + 3] += widened((u16)(more.y >> 16), BF16);
    }
  }
}

__device__ __forceinline__ void load4(float* to, u32 from) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
               : "r"(from));
}

__device__ __forceinline__ void add4(float* to, u32 from) {
  float more[4];
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(more[0]), "=f"(more[1]), "=f"(more[2]), "=f"(more[3])
               : "r"(from));
#pragma unroll
  for (int i = 0; i < 4; i++) to[i] += more[i];
}

__device__ __forceinline__ u32 pair(float low, float high) {
  u32 both;
#if OUT_BF16
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
#else
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
#endif
  return both;
}

struct Result {
  void* c;
  u32 factors;
  const void *bias, *residual;
  int m, n, entry;
};

// So many columns of 64 rows from shared memory into the result, with their epilogue; of SPLIT, the share of one.
template <int WIDE>
__device__ __forceinline__ void put(const Result& to, u32 from, int row, int column, int t, int part) {
  constexpr int PUT = WIDE / (GATED ? 2 : 1), PIECES = PUT / EACH, ROWS = (64 + SPLIT - 1) / SPLIT;
  const int n = GATED ? to.n / 2 : to.n, first = GATED ? column / 2 : column;
#pragma unroll 2
  for (int i = t; i < ROWS * PIECES; i += 128) {
    const int line = part * ROWS + i / PIECES, x = i % PIECES * EACH, place = first + x;
    if (line >= 64 || row + line >= to.m || place >= n) continue;
    float sums[EACH], others[EACH];
    const u32 at = from + line * PITCH + (GATED ? x / 8 * 16 + x % 8 : x) * 4;
#pragma unroll
    for (int j = 0; j < EACH; j += 4) {
      load4(sums + j, at + j * 4);
      if (GATED) load4(others + j, at + 32 + j * 4);
    }
#if NORM
    float factor;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(factor) : "r"(to.factors + line * 4));
#pragma unroll
    for (int j = 0; j < EACH; j++) sums[j] *= factor, others[j] *= factor;
#endif
    if (SPLIT > 1)
      for (int other = 1; other < SPLIT; other++) {
        u32 there;
        const int rank = (part + other) % SPLIT;
        asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(rank));
#pragma unroll
        for (int j = 0; j < EACH; j += 4) {
          add4(sums + j, there + j * 4);
          if (GATED) add4(others + j, there + 32 + j * 4);
        }
      }
    const u64 where = ((u64)to.entry * to.m + row + line) * n + place;
#if BIAS
    add_from<BIAS_F32, BIAS_BF16>(sums, to.bias, place);
#endif
#if RESIDUAL
    add_from<RESIDUAL_F32, RESIDUAL_BF16>(sums, to.residual, where);
#endif
#pragma unroll
    for (int j = 0; j < EACH; j++) sums[j] = finished(sums[j]) * (GATED ? others[j] : 1.0f);
    u32 words[4];
#pragma unroll
    for (int j = 0; j < 4; j++) words[j] = OUT_F32 ? __float_as_uint(sums[j]) : pair(sums[2 * j % EACH], sums[(2 * j + 1) % EACH]);
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"((u64)to.c + where * OUT_BYTES), "r"(words[0]),
                 "r"(words[1]), "r"(words[2]), "r"(words[3])
                 : "memory");
  }
}

// Eight columns of this thread's rows into shared memory.
__device__ __forceinline__ void stage(const Result& to, u32 at, float* sums, int strip, int j, int column, int t) {
  const int x = j * 8 + t % 4 * 2, i = (strip * (STRIP / 8) + j) * 4;
  float added[2] = {0.0f, 0.0f};
#if BIAS
  const int place = column + strip * STRIP + x;
  if (PLAIN && place < to.n)
    for (int k = 0; k < 2; k++)
      added[k] = BIAS_F32 ? ((const float*)to.bias)[place + k] : widened(((const u16*)to.bias)[place + k], BIAS_BF16);
#endif
#pragma unroll
  for (int half = 0; half < 2; half++) {
    const u32 there = at + (t / 32 * 16 + half * 8 + t % 32 / 4) * PITCH + x * (PLAIN ? OUT_BYTES : 4);
    float low = sums[i + half * 2], high = sums[i + half * 2 + 1];
#if NORM
    if (PLAIN) {
      float factor;
      asm volatile("ld.shared.f32 %0, [%1];" : "=f"(factor) : "r"(to.factors + (t / 32 * 16 + half * 8 + t % 32 / 4) * 4));
      low *= factor, high *= factor;
    }
#endif
    if (PLAIN) low = finished(low + added[0]), high = finished(high + added[1]);
    if (PLAIN && !OUT_F32)
      asm volatile("st.shared.b32 [%0], %1;" ::"r"(there), "r"(pair(low, high)) : "memory");
    else
      asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(there), "f"(low), "f"(high) : "memory");
  }
}

// 64 rows of a strip as they are, each by a thread. Those of the strip before are gone when it returns.
__device__ __forceinline__ void put_plain(const Result& to, u32 from, int row, int column, int wide, int t) {
  wide = min(wide, to.n - column);
  if (t < 64 && row + t < to.m && wide > 0) {
    const u64 where = ((u64)to.entry * to.m + row + t) * to.n + column;
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"((u64)to.c + where * OUT_BYTES),
                 "r"(from + t * PITCH), "r"(wide * OUT_BYTES)
                 : "memory");
  }
  asm volatile("cp.async.bulk.commit_group;\n\tcp.async.bulk.wait_group.read 0;" ::: "memory");
}

__device__ __forceinline__ void together(int which, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(which), "r"(threads) : "memory");
}

#if NORM
constexpr int KNOWN = 9, TAKEN = 10, NORMING = GROUPS * 128 + 64;  // barriers between those that norm and those that multiply

// What two warps do: of every tile the rows' mean squares, or variances, as their steps come, and of each the factor that its
// sums get. The factors of a tile are put where those of the last were once every group has taken these.
__device__ __forceinline__ void norm_rows(u32 ring, u32 barriers, u32 factors, int tiles, int clusters, int steps, int k) {
  const int row = threadIdx.x - 64;
  int done = 0;
  for (int tile = blockIdx.x / CLUSTER; tile < tiles; tile += clusters) {
    float squares[BM / 64] = {}, means[BM / 64] = {};
    for (int s = 0; s < steps; s++, done++) {
      const int stage = done % STAGES;
      wait(barriers + stage * 16, done / STAGES & 1);
#pragma unroll
      for (int i = 0; i < BM / 64; i++)
#pragma unroll 4
        for (int piece = 0; piece < 8; piece++) {
          u32 words[4];
          asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                       : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                       : "r"(ring + stage * STAGE + (row + i * 64) * 128 + ((piece ^ row % 8) << 4)));
#pragma unroll
          for (int j = 0; j < 4; j++) {
            const float low = widened((u16)words[j], LHS_BF16), high = widened((u16)(words[j] >> 16), LHS_BF16);
            squares[i] += low * low + high * high;
            if (NORM == 2) means[i] += low + high;
          }
        }
      __syncwarp();
      if (threadIdx.x % 32 < SHARED_BY) arrive(barriers + stage * 16 + 8, threadIdx.x % 32);
    }
    if (tile >= clusters) together(TAKEN, NORMING);
    for (int i = 0; i < BM / 64; i++) {
      const float mean = means[i] / k, spread = fmaxf(squares[i] / k - mean * mean, 0.0f);
      asm volatile("st.shared.f32 [%0], %1;" ::"r"(factors + (row + i * 64) * 4), "f"(rsqrtf(spread + bits(EPS_BITS)))
                   : "memory");
    }
    together(KNOWN, NORMING);
  }
}
#endif

__device__ __forceinline__ void whole_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

extern "C" __global__ void __launch_bounds__(128 * (GROUPS + 1), 1)
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
              void* __restrict__ c, char* __restrict__ scratch, int m, int n, int k, int batch) {
#if !BIAS
  const void* bias = nullptr;
#endif
#if !RESIDUAL
  const void* residual = nullptr;
#endif
  extern __shared__ char memory[];
  const u32 ring = (shared_of(memory) + 1023) & ~1023u;
  const u32 strips = WHOLE ? ring : ring + STAGES * STAGE;
  const u32 maps = ring + STAGES * STAGE + (WHOLE ? 0 : GROUPS * 64 * PITCH), barriers = maps + 256, factors = barriers + 128;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, clusters = gridDim.x / CLUSTER;
  int rank = 0;
  if (CLUSTER > 1) asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  const int tiles = (m + BM * CM - 1) / (BM * CM) * ((n + BN * CN - 1) / (BN * CN)) * batch;
  const int all = (k + BK - 1) / BK, share = (all + SPLIT - 1) / SPLIT, begin = SPLIT > 1 ? rank * share : 0;
  const int steps = max(min(share, all - begin), 0);
  const u64 map = ((u64)scratch + 127 & ~127ull) + (u64)blockIdx.x * 256 + warp * 128;
  if (warp == 0)
    describe(maps, map, a, batch * (TRANSPOSE_LHS ? k : m), TRANSPOSE_LHS ? m : k, TRANSPOSE_LHS ? BK : BM / CN, lane);
  else if (warp == 1)
    describe(maps + 128, map, b, batch * (TRANSPOSE_RHS ? n : k), TRANSPOSE_RHS ? k : n, TRANSPOSE_RHS ? BN / CM : BK, lane);
  else if (threadIdx.x == 96)
    for (int i = 0; i < STAGES; i++) {
      init(barriers + i * 16, 2);
      init(barriers + i * 16 + 8, (GROUPS + (NORM ? 2 : 0)) * SHARED_BY);
    }
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  if (SHARED_BY > 1)
    asm volatile("barrier.cluster.arrive.relaxed.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
  else
    __syncthreads();
  if (warp < 4) {
#if GROUPS == 3
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
#elif GROUPS == 2
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
#endif
    if (warp < 2 && lane == 0) {
      const bool rows = warp == 0;
      int done = 0;
      asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
      for (int tile = blockIdx.x / CLUSTER; tile < tiles; tile += clusters) {
        const Place at = place(tile, m, n, rank);
        for (int s = 0; s < steps; s++, done++) {
          const int stage = done % STAGES, depth = (begin + s) * BK;
          const u32 full = barriers + stage * 16, x = ring + stage * STAGE, y = x + X_BYTES;
          wait(full + 8, done / STAGES & 1 ^ 1);
          expect(full, rows ? X_BYTES : Y_BYTES);
          if (rows && TRANSPOSE_LHS) {
            for (int i = 0; i < BM / 64; i++)
              if (CN == 1 || i % CN == rank) send(x + i * 8192, map, at.row + i * 64, at.entry * k + depth, full, CN > 1);
          } else if (rows) {
            const int part = CN > 1 ? rank * (BM / CN) : 0;
            send(x + part * 128, map, depth, at.entry * m + at.row + part, full, CN > 1);
          } else if (TRANSPOSE_RHS) {
            const int part = CM > 1 ? rank * (BN / CM) : 0;
            send(y + part * 128, map, depth, at.entry * n + at.column + part, full, CM > 1);
          } else {
            for (int i = 0; i < BN / 64; i++)
              if (CM == 1 || i % CM == rank) send(y + i * 8192, map, at.column + i * 64, at.entry * k + depth, full, CM > 1);
          }
        }
      }
      // None leaves while another still sends to it.
      if (SHARED_BY > 1)
        for (int i = 0; i < STAGES; i++, done++) wait(barriers + done % STAGES * 16 + 8, done / STAGES & 1 ^ 1);
    }
#if NORM
    if (warp >= 2) norm_rows(ring, barriers, factors, tiles, clusters, steps, k);
#endif
    __syncwarp();
    if (SPLIT > 1) {
      whole_cluster();
      whole_cluster();
    }
    return;
  }
#if GROUPS == 2
  asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
#elif GROUPS == 3
  asm volatile("setmaxnreg.inc.sync.aligned.u32 160;");
#endif
  const int group = warp / 4 - 1, t = threadIdx.x % 128;
  int done = 0;
  for (int tile = blockIdx.x / CLUSTER; tile < tiles; tile += clusters) {
    const Place at = place(tile, m, n, rank);
    float sums[HIGH][BN / 2];
    for (int s = 0; s < steps; s++, done++) {
      const int stage = done % STAGES;
      const u32 full = barriers + stage * 16, x = ring + stage * STAGE, before = barriers + (done + STAGES - 1) % STAGES * 16 + 8;
      wait(full, done / STAGES & 1);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
      for (int i = 0; i < BK / 16; i++) {
        const u64 y = tile_at<!TRANSPOSE_RHS>(x + X_BYTES) + i * (TRANSPOSE_RHS ? 2 : 128);
#pragma unroll
        for (int high = 0; high < HIGH; high++)
          Product<BN>::add<TRANSPOSE_LHS, !TRANSPOSE_RHS>(
              sums[high], tile_at<TRANSPOSE_LHS>(x + (group * HIGH + high) * 8192) + i * (TRANSPOSE_LHS ? 128 : 2), y,
              s > 0 || i > 0);
      }
      asm volatile("wgmma.commit_group.sync.aligned;\n\twgmma.wait_group.sync.aligned 1;" ::: "memory");
      if (s > 0 && t < SHARED_BY) arrive(before, t);
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    if (steps > 0 && t < SHARED_BY) arrive(barriers + (done + STAGES - 1) % STAGES * 16 + 8, t);
    if (SPLIT > 1 && steps == 0)
      for (int high = 0; high < HIGH; high++)
        for (int i = 0; i < BN / 2; i++) sums[high][i] = 0.0f;
    if (WHOLE) together(8, GROUPS * 128);  // all have read the last step
#if NORM
    together(KNOWN, NORMING);
#endif
#pragma unroll
    for (int high = 0; high < HIGH; high++) {
      const int part = (group * HIGH + high) * 64, row = at.row + part;
      const Result to = {c, factors + part * 4, bias, residual, m, n, at.entry};
      const u32 mine = strips + (WHOLE ? group * HIGH + high : group) * 64 * PITCH;
#pragma unroll
      for (int strip = 0; strip < (BN + STRIP - 1) / STRIP; strip++) {
#pragma unroll
        for (int j = 0; j < STRIP / 8 && strip * STRIP + j * 8 < BN; j++) stage(to, mine, sums[high], strip, j, at.column, t);
        if (SPLIT > 1) continue;
        if (PLAIN) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        together(group + 1, 128);
        constexpr int LAST = BN % STRIP == 0 ? STRIP : BN % STRIP;
        if (PLAIN)
          put_plain(to, mine, row, at.column + strip * STRIP, strip * STRIP + STRIP <= BN ? STRIP : LAST, t);
        else if (strip * STRIP + STRIP <= BN)
          put<STRIP>(to, mine, row, at.column + strip * STRIP, t, 0);
        else
          put<LAST>(to, mine, row, at.column + strip * STRIP, t, 0);
        if (!WHOLE) together(group + 1, 128);
      }
    }
    if (SPLIT > 1) {
      whole_cluster();
#pragma unroll 1
      for (int high = 0; high < HIGH; high++) {
        const int part = (group * HIGH + high) * 64;
        put<BN>({c, factors, bias, residual, m, n, at.entry}, strips + part * PITCH, at.row + part, at.column, t, rank);
      }
      whole_cluster();  // none leaves while another still reads its sums
    }
#if NORM
    if (tile + clusters < tiles) asm volatile("bar.arrive %0, %1;" ::"r"(TAKEN), "r"(NORMING) : "memory");
#endif
  }
}
