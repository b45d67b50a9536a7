// A matrix times a vector in f32: a product of one row (OF_RHS: the matrix is B, the vector A) or of one column. One call
// computes TILE elements of one batch entry. All that counts is to read the matrix once, in order: either its rows go
// with the result (ALONG: lanes of vectors are neighbours in the result), or with the sums (each element is a sum of
// products along a row).

#define ONE_BIAS !OF_RHS  // a bias is one of each column: of a single column, one for all
#include "vectors.h"

#define ALONG (OF_RHS ? !TRANSPOSE_RHS : TRANSPOSE_LHS)
#define AT_ONCE 4
#define WIDE (8 * LANES)

INLINE float total(vec x) {
  float sum = 0.0f;
  for (int l = 0; l < LANES; ++l) sum += x[l];
  return sum;
}

// `count` <= WIDE elements; rows of the matrix are `stride` apart.
INLINE void along(const float* restrict matrix, ptrdiff_t stride, const float* restrict vector, ptrdiff_t depth,
                  ptrdiff_t count, float* restrict sums) {
  if (count == WIDE) {
    vec sum[WIDE / LANES];
    UNROLL
    for (int j = 0; j < WIDE / LANES; ++j) sum[j] = (vec){0};
    for (ptrdiff_t p = 0; p < depth; ++p, matrix += stride) {
      UNROLL
      for (int j = 0; j < WIDE / LANES; ++j) sum[j] += vector[p] * *(const loose_vec*)(matrix + j * LANES);
    }
    UNROLL
    for (int j = 0; j < WIDE / LANES; ++j) *(vec*)(sums + j * LANES) = sum[j];
    return;
  }
  for (ptrdiff_t l = 0; l < count; ++l) sums[l] = 0.0f;
  for (ptrdiff_t p = 0; p < depth; ++p, matrix += stride)
    for (ptrdiff_t l = 0; l < count; ++l) sums[l] += vector[p] * matrix[l];
}

// Sums along `rows` rows, `depth` apart, the last one again and again where there are fewer than AT_ONCE.
INLINE void across(const float* restrict matrix, const float* restrict vector, ptrdiff_t depth, ptrdiff_t rows,
                   float* restrict sums) {
  vec sum[AT_ONCE][2];
  const float* row[AT_ONCE];
  UNROLL
  for (int i = 0; i < AT_ONCE; ++i) {
    row[i] = matrix + least(i, rows - 1) * depth;
    sum[i][0] = sum[i][1] = (vec){0};
  }
  ptrdiff_t p = 0;
  for (; p + 2 * LANES <= depth; p += 2 * LANES) {
    vec first = *(const loose_vec*)(vector + p), second = *(const loose_vec*)(vector + p + LANES);
    UNROLL
    for (int i = 0; i < AT_ONCE; ++i) {
      sum[i][0] += first * *(const loose_vec*)(row[i] + p);
      sum[i][1] += second * *(const loose_vec*)(row[i] + p + LANES);
    }
  }
  UNROLL
  for (int i = 0; i < AT_ONCE; ++i) {
    float last = total(sum[i][0] + sum[i][1]);
    for (ptrdiff_t q = p; q < depth; ++q) last += vector[q] * row[i][q];
    sums[i] = last;
  }
}

void sgemv(const float* restrict a, const float* restrict b,
#if BIAS
           const float* restrict bias,
#endif
#if RESIDUAL
           const float* restrict residual,
#endif
           float* restrict c, int32_t m, int32_t n, int32_t k, size_t tile, size_t unused, size_t entry) {
  (void)unused;
#if !BIAS
  const float* bias = 0;
#endif
#if !RESIDUAL
  const float* residual = c;
#endif
  const ptrdiff_t K = k, R = OF_RHS ? n : m, first = tile * TILE, end = least(R, first + TILE);
  const float* matrix = OF_RHS ? b + entry * K * R : a + entry * K * R;
  const float* vector = OF_RHS ? a + entry * K : b + entry * K;
  float sums[WIDE] __attribute__((aligned(64)));
  for (ptrdiff_t r = first; r < end; r += ALONG ? WIDE : AT_ONCE) {
    const ptrdiff_t count = least(ALONG ? WIDE : AT_ONCE, end - r), at = entry * R + r;
    if (ALONG)
      along(matrix + r, R, vector, K, count, sums);
    else
      across(matrix + r * K, vector, K, count, sums);
    store(sums, (Place){c + at, ONE_BIAS ? bias : bias + r, residual + at}, count, 0, 1);
  }
}
