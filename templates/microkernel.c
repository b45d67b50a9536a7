#include <stddef.h>
#include <stdint.h>

void gemm(const float* restrict a, const float* restrict b, float* restrict c,
          int32_t m, int32_t n, int32_t k, size_t x, size_t y, size_t z) {
  float* row = c + y * n;
  for (int32_t j = 0; j < n; ++j) row[j] = 0;
  for (int32_t p = 0; p < k; ++p)
    for (int32_t j = 0; j < n; ++j) row[j] += a[y * k + p] * b[p * n + j];
}
