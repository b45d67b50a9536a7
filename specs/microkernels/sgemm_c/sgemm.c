// C = A·B in f32, in the manner of BLIS: panels of A and B are packed into a buffer on the stack, and a block of
// registers goes over them. One source for AVX-512, AVX2, NEON and whatever else has GCC's vector extensions.
//
// Row-major; TRANSPOSE_LHS says that A lies as KxM, TRANSPOSE_RHS that B lies as NxK. C is overwritten. One call
// computes the tile of one workgroup: MC rows and NC columns of one batch entry, KC deep at a time, in blocks of MR rows
// and VECTORS vectors. Any of these may be ragged. A PACKED B comes in panels of NR columns. Nothing is
// shared between calls, nothing is allocated and no library is called, so that it links into IREE's embedded executables
// and any number of threads can run it.

#define NV VECTORS
#include "blocks.h"

#if defined(__aarch64__)
#define AHEAD 12  // steps that are asked for before they are packed: what is a stride apart, no cache foresees
#else
#define AHEAD 0
#endif
#ifndef TRANSPOSE_LHS
#define TRANSPOSE_LHS 0
#endif
#ifndef TRANSPOSE_RHS
#define TRANSPOSE_RHS 0
#endif

#define ROWS ((MC + MR - 1) / MR * MR)

// IREE gives the stack of a worker 128 KiB; the rest is for the frames around this one.
#define MAX_SCRATCH (104 * 1024)
_Static_assert(4 * (ROWS * KC + (PACKED ? 0 : KC * NR)) <= MAX_SCRATCH, "the panels do not fit the stack of a worker");

// `count` x 4 columns: four rows of the source, `stride` apart, become four neighbours in each row of the panel.
INLINE void transpose_quads(const float* restrict from, ptrdiff_t stride, ptrdiff_t count, float* restrict to,
                            ptrdiff_t width) {
  ptrdiff_t p = 0;
  for (; p + 4 <= count; p += 4) {
    quad r0 = *(const loose_quad*)(from + p);
    quad r1 = *(const loose_quad*)(from + stride + p);
    quad r2 = *(const loose_quad*)(from + 2 * stride + p);
    quad r3 = *(const loose_quad*)(from + 3 * stride + p);
    quad a = SHUFFLE(r0, r1, 0, 4, 1, 5), b = SHUFFLE(r2, r3, 0, 4, 1, 5);
    quad c = SHUFFLE(r0, r1, 2, 6, 3, 7), d = SHUFFLE(r2, r3, 2, 6, 3, 7);
    *(loose_quad*)(to + (p + 0) * width) = SHUFFLE(a, b, 0, 1, 4, 5);
    *(loose_quad*)(to + (p + 1) * width) = SHUFFLE(a, b, 2, 3, 6, 7);
    *(loose_quad*)(to + (p + 2) * width) = SHUFFLE(c, d, 0, 1, 4, 5);
    *(loose_quad*)(to + (p + 3) * width) = SHUFFLE(c, d, 2, 3, 6, 7);
  }
  for (; p < count; ++p)
    for (int i = 0; i < 4; ++i) to[p * width + i] = from[i * stride + p];
}

// A panel of `width` lanes and `depth` steps from a source whose lanes are `stride` apart and steps are neighbours.
INLINE void pack_across(const float* restrict from, ptrdiff_t stride, ptrdiff_t depth, ptrdiff_t have, int width,
                        float* restrict to) {
  ptrdiff_t i = 0;
  for (; i + 4 <= have; i += 4) transpose_quads(from + i * stride, stride, depth, to + i, width);
  for (; i < width; ++i)
    for (ptrdiff_t p = 0; p < depth; ++p) to[p * width + i] = i < have ? from[i * stride + p] : 0.0f;
}

// The same from a source whose lanes are neighbours and whose steps are `stride` apart.
INLINE void pack_along(const float* restrict from, ptrdiff_t stride, ptrdiff_t depth, ptrdiff_t have, int width,
                       float* restrict to) {
  for (ptrdiff_t p = 0; p < depth; ++p, from += stride, to += width) {
    if (AHEAD) __builtin_prefetch(from + AHEAD * stride);
    if (have == width) {
      UNROLL
      for (int i = 0; i + LANES <= width; i += LANES) *(loose_vec*)(to + i) = *(const loose_vec*)(from + i);
      UNROLL
      for (int i = width / LANES * LANES; i < width; ++i) to[i] = from[i];
    } else {
      for (int i = 0; i < width; ++i) to[i] = i < have ? from[i] : 0.0f;
    }
  }
}

void sgemm(const float* restrict a, const float* restrict b,
#if BIAS
           const float* restrict bias,
#endif
#if RESIDUAL
           const float* restrict residual,
#endif
           float* restrict c, int32_t m, int32_t n, int32_t k, size_t tile_n, size_t tile_m, size_t entry) {
  float left[ROWS * KC] __attribute__((aligned(64)));
#if !PACKED
  float right[KC * NR] __attribute__((aligned(64)));
#endif
#if !BIAS
  const float* bias = 0;
#endif
#if !RESIDUAL
  const float* residual = c;
#endif
  const ptrdiff_t M = m, N = n, K = k, row = tile_m * MC, column = tile_n * NC;
  const ptrdiff_t rows = least(MC, M - row), columns = least(NC, N - column);
  const ptrdiff_t at = entry * M * N + row * N + column;
  a += entry * M * K + row * (TRANSPOSE_LHS ? 1 : K);
  b += PACKED ? (entry * ((N + NR - 1) / NR * NR) + column) * K : entry * K * N + column * (TRANSPOSE_RHS ? K : 1);
  for (ptrdiff_t p = 0; p < K; p += KC) {
    const ptrdiff_t depth = least(KC, K - p);
    for (ptrdiff_t i = 0; i < rows; i += MR) {
      if (TRANSPOSE_LHS)
        pack_along(a + p * M + i, M, depth, least(MR, rows - i), MR, left + i * KC);
      else
        pack_across(a + i * K + p, K, depth, least(MR, rows - i), MR, left + i * KC);
    }
    for (ptrdiff_t j = 0; j < columns; j += NR) {
#if PACKED
      const float* right = b + j * K + p * NR;
#else
      if (TRANSPOSE_RHS)
        pack_across(b + j * K + p, K, depth, least(NR, columns - j), NR, right);
      else
        pack_along(b + p * N + j, N, depth, least(NR, columns - j), NR, right);
#endif
      for (ptrdiff_t i = 0; i < rows; i += MR) {
        const Place place = {c + at + i * N + j, bias + column + j, residual + at + i * N + j};
        vec sum[MR][NV];
        clear(sum, NV);
        if (AHEAD) expect(place.out, N, NV);
        multiply(sum, left + i * KC, right, NR, depth, NV);
        put(sum, place, N, least(MR, rows - i), least(NR, columns - j), p > 0, p + depth == K, NV);
      }
    }
  }
}
