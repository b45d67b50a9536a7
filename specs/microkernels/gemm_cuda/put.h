// What becomes of sums: their epilogue, and their way through shared memory into the result.
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
