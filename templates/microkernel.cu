// One thread for each number of the result.
__device__ float number(unsigned short bits) {
#if LHS_BF16
  return __uint_as_float((unsigned)bits << 16);
#else
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
#endif
}

extern "C" __global__ void __launch_bounds__(WIDE * HIGH)
gemm(const unsigned short* a, const unsigned short* b, float* c, int m, int n, int k) {
  const long long row = blockIdx.y * HIGH + threadIdx.y, column = blockIdx.x * WIDE + threadIdx.x;
  if (row >= m || column >= n) return;
  float sum = 0;
  for (int p = 0; p < k; ++p) sum += number(a[row * k + p]) * number(b[(long long)p * n + column]);
  c[row * n + column] = sum;
}
