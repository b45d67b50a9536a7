// Vectors of f32 in GCC's extensions, and how sums are stored: with what was there, bias, residual and limits.

#include <stddef.h>
#include <stdint.h>

#if defined(__AVX512F__)
#define LANES 16
#define EVENS 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#elif defined(__AVX__)
#define LANES 8
#define EVENS 0, 2, 4, 6, 8, 10, 12, 14
#else
#define LANES 4
#define EVENS 0, 2, 4, 6
#endif

#ifndef BIAS  // a problem without an epilogue
#define BIAS 0
#define RESIDUAL 0
#define CLIP_LOW 0
#define CLIP_HIGH 0
#define LOW_BITS 0
#define HIGH_BITS 0
#endif

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 64")

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef float loose __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef float quad __attribute__((vector_size(16)));
typedef float loose_quad __attribute__((vector_size(16), aligned(4), may_alias));
typedef float single __attribute__((vector_size(4)));
typedef float loose_single __attribute__((vector_size(4), may_alias));

#if defined(__has_builtin) && __has_builtin(__builtin_shufflevector)
#define SHUFFLE(x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)
#else  // GCC before 12
typedef int32_t places __attribute__((vector_size(4 * LANES)));
typedef int32_t quad_places __attribute__((vector_size(16)));
#define SHUFFLE(x, y, ...) \
  __builtin_shuffle(x, y, (__typeof__(__builtin_choose_expr(sizeof(x) == 16, (quad_places){0}, (places){0}))){__VA_ARGS__})
#endif

INLINE ptrdiff_t least(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }
INLINE ptrdiff_t most(ptrdiff_t a, ptrdiff_t b) { return a > b ? a : b; }

INLINE float from_bits(uint32_t bits) {
  union {
    uint32_t bits;
    float value;
  } both = {bits};
  return both.value;
}

// Where a run of results goes, and what is added to it.
typedef struct {
  float* out;
  const float* bias;      // one for all of the run, or
  const float* biases;    // one for each
  const float* residual;  // like out
} Place;

// Lanes below a limit take the limit; those that are no number stay.
#define LIMIT(x, outside, limit)                                              \
  do {                                                                        \
    __typeof__((x) < (x)) there = outside, given = (__typeof__(there))(limit); \
    x = (__typeof__(x))((there & given) | (~there & (__typeof__(there))(x)));  \
  } while (0)

// `name(sums, place, count, add, last)` for runs of at least a vector. Where vectors do not divide the run, the last one
// goes over the one before it: it is computed first, from what was there before.
#define RUNS(name, type, plain, width)                                                                           \
  INLINE type name##_at(const float* restrict sums, Place place, ptrdiff_t l, int add, int last) {               \
    const float low = from_bits(LOW_BITS), high = from_bits(HIGH_BITS);                                          \
    type x = *(const plain*)(sums + l);                                                                          \
    if (add) x += *(const plain*)(place.out + l);                                                                \
    if (last) {                                                                                                  \
      if (BIAS) x += place.bias ? (type){0} + *place.bias : (type) * (const plain*)(place.biases + l);           \
      if (RESIDUAL) x += *(const plain*)(place.residual + l);                                                    \
      if (CLIP_LOW) LIMIT(x, x < (type){0} + low, (type){0} + low);                                              \
      if (CLIP_HIGH) LIMIT(x, x > (type){0} + high, (type){0} + high);                                           \
    }                                                                                                            \
    return x;                                                                                                    \
  }                                                                                                              \
  INLINE void name(const float* restrict sums, Place place, ptrdiff_t count, int add, int last) {                \
    const ptrdiff_t end = count / width * width, tail = count - width;                                           \
    type rest = (type){0};                                                                                       \
    if (end < count) rest = name##_at(sums, place, tail, add, last);                                             \
    for (ptrdiff_t l = 0; l < end; l += width) *(plain*)(place.out + l) = name##_at(sums, place, l, add, last);  \
    if (end < count) *(plain*)(place.out + tail) = rest;                                                         \
  }

RUNS(store_vectors, vec, loose, LANES)
RUNS(store_quads, quad, loose_quad, 4)
RUNS(store_singles, single, loose_single, 1)

// `count` sums to their place. `add`: to what is there; `last`: nothing comes after.
INLINE void store(const float* restrict sums, Place place, ptrdiff_t count, int add, int last) {
  if (count >= LANES)
    store_vectors(sums, place, count, add, last);
  else if (count >= 4)
    store_quads(sums, place, count, add, last);
  else
    store_singles(sums, place, count, add, last);
}

// `count` numbers that are `step` apart, one after the other.
INLINE void gather(const float* restrict from, ptrdiff_t step, ptrdiff_t count, float* restrict to) {
  ptrdiff_t l = 0;
  if (step == 1 && count >= LANES) {
    for (; l + LANES <= count; l += LANES) *(loose*)(to + l) = *(const loose*)(from + l);
    *(loose*)(to + count - LANES) = *(const loose*)(from + count - LANES);
    return;
  }
  if (step == 1 && count >= 4) {
    for (; l + 4 <= count; l += 4) *(loose_quad*)(to + l) = *(const loose_quad*)(from + l);
    *(loose_quad*)(to + count - 4) = *(const loose_quad*)(from + count - 4);
    return;
  }
  if (step == 2) {
    for (; l + LANES < count; l += LANES) {  // the last vector would read one beyond
      vec a = *(const loose*)(from + 2 * l), b = *(const loose*)(from + 2 * l + LANES);
      *(loose*)(to + l) = SHUFFLE(a, b, EVENS);
    }
  }
  for (; l < count; ++l) to[l] = from[l * step];
}

INLINE void zeros(float* to, ptrdiff_t count) {
  ptrdiff_t l = 0;
  for (; l + 4 <= count; l += 4) *(loose_quad*)(to + l) = (quad){0};
  for (; l < count; ++l) to[l] = 0.0f;
}
