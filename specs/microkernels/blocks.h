// A block of registers: MR rows and up to NV vectors of sums, how panels are multiplied into it, and how it is stored.

#pragma once
#include "vectors.h"

#define NR (NV * LANES)

INLINE void clear(vec sum[MR][NV], const int nv) {
  UNROLL
  for (int i = 0; i < MR; ++i) {
    UNROLL
    for (int j = 0; j < nv; ++j) sum[i][j] = (vec){0};
  }
}

// One step: MR numbers, `apart` from each other, times `nv` vectors.
INLINE void step(vec sum[MR][NV], const float* restrict a, ptrdiff_t apart, const float* restrict b, const int nv) {
  vec right[NV];
  UNROLL
  for (int j = 0; j < nv; ++j) right[j] = *(const loose_vec*)(b + j * LANES);
  UNROLL
  for (int i = 0; i < MR; ++i) {
    UNROLL
    for (int j = 0; j < nv; ++j) sum[i][j] += a[i * apart] * right[j];
  }
}

#if defined(__aarch64__)
// Lanes of a register are multiplied: no broadcast takes the place of a product. Here numbers are side by side, ...
INLINE void step_by_lanes(vec sum[MR][NV], const float* restrict a, const float* restrict b, const int nv) {
  vec right[NV];
  quad left[MR / 4 + 1];
  UNROLL
  for (int j = 0; j < nv; ++j) right[j] = *(const loose_vec*)(b + j * LANES);
  UNROLL
  for (int i = 0; i + 4 <= MR; i += 4) left[i / 4] = *(const loose_quad*)(a + i);
  UNROLL
  for (int i = 0; i < MR; ++i) {
    UNROLL
    for (int j = 0; j < nv; ++j) sum[i][j] += (i < MR / 4 * 4 ? left[i / 4][i % 4] : a[i]) * right[j];
  }
}

// ... here the same number of four steps is.
INLINE void four_steps(vec sum[MR][NV], const float* restrict a, ptrdiff_t apart, const float* restrict b,
                       ptrdiff_t b_step, const int nv) {
  quad left[MR];
  UNROLL
  for (int i = 0; i < MR; ++i) left[i] = *(const loose_quad*)(a + i * apart);
  UNROLL
  for (int q = 0; q < 4; ++q, b += b_step) {
    vec right[NV];
    UNROLL
    for (int j = 0; j < nv; ++j) right[j] = *(const loose_vec*)(b + j * LANES);
    UNROLL
    for (int i = 0; i < MR; ++i) {
      UNROLL
      for (int j = 0; j < nv; ++j) sum[i][j] += left[i][q] * right[j];
    }
  }
}
#endif

// `depth` steps of a panel that is MR wide with one that is `b_step` wide.
INLINE void multiply(vec sum[MR][NV], const float* restrict a, const float* restrict b, ptrdiff_t b_step, ptrdiff_t depth,
                     const int nv) {
#if defined(__aarch64__)
  // Four steps without a branch: the loads of the next have no need to wait for the products of this one.
  _Pragma("GCC unroll 4")
  for (ptrdiff_t p = 0; p < depth; ++p, a += MR, b += b_step) step_by_lanes(sum, a, b, nv);
#else
  for (ptrdiff_t p = 0; p < depth; ++p, a += MR, b += b_step) step(sum, a, 1, b, nv);
#endif
}

// The same where the steps of a row are side by side and rows are `apart`.
INLINE void multiply_rows(vec sum[MR][NV], const float* restrict a, ptrdiff_t apart, const float* restrict b,
                          ptrdiff_t b_step, ptrdiff_t depth, const int nv) {
  ptrdiff_t p = 0;
#if defined(__aarch64__)
  for (; p + 4 <= depth; p += 4, b += 4 * b_step) four_steps(sum, a + p, apart, b, b_step, nv);
#endif
  for (; p < depth; ++p, b += b_step) step(sum, a + p, apart, b, nv);
}

INLINE Place below(Place place, ptrdiff_t i, ptrdiff_t stride) {
  return (Place){place.out + i * stride, ONE_BIAS ? place.bias + i : place.bias, place.residual + i * stride};
}

// Has the place of a block come near before its sums are there; beyond its end nothing happens.
INLINE void expect(const float* out, ptrdiff_t stride, const int nv) {
  UNROLL
  for (int i = 0; i < MR; ++i) {
    UNROLL
    for (int l = 0; l < nv * LANES; l += 16) __builtin_prefetch(out + i * stride + l, 1);
  }
}

// `rows` of a block to their place, where they are `stride` apart; of each `columns`.
INLINE void put(vec sum[MR][NV], Place place, ptrdiff_t stride, ptrdiff_t rows, ptrdiff_t columns, int add, int last,
                const int nv) {
  if (rows < MR || columns < nv * LANES) {
    float sums[MR][NR] __attribute__((aligned(64)));
    UNROLL
    for (int i = 0; i < MR; ++i) {
      UNROLL
      for (int j = 0; j < nv; ++j) *(vec*)(sums[i] + j * LANES) = sum[i][j];
    }
    for (ptrdiff_t i = 0; i < rows; ++i) store(sums[i], below(place, i, stride), columns, add, last);
    return;
  }
  if (add) {
    UNROLL
    for (int i = 0; i < MR; ++i) {
      UNROLL
      for (int j = 0; j < nv; ++j) sum[i][j] += *(const loose_vec*)(place.out + i * stride + j * LANES);
    }
  }
  if (last) {
    UNROLL
    for (int i = 0; i < MR; ++i) {
      UNROLL
      for (int j = 0; j < nv; ++j) sum[i][j] = finished(sum[i][j], below(place, i, stride), j * LANES);
    }
  }
  UNROLL
  for (int i = 0; i < MR; ++i) {
    UNROLL
    for (int j = 0; j < nv; ++j) *(loose_vec*)(place.out + i * stride + j * LANES) = sum[i][j];
  }
  // From memory, which is near: so many functions of registers at once would leave none for their numbers.
  if (ACTIVATION && last) {
    for (int i = 0; i < MR; ++i) {
      for (int j = 0; j < nv; ++j) {
        loose_vec* at = (loose_vec*)(place.out + i * stride + j * LANES);
        *at = activated(*at);
      }
    }
  }
}
