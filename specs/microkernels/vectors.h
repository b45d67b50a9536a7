// Vectors of f32 in GCC's extensions, and how sums are stored: with what was there, bias, residual, and
// limits or an activation.

#include <stddef.h>
#include <stdint.h>

#if defined(__AVX512F__)
#define LANES 16
#define EVENS 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#elif defined(__AVX__)
#define LANES 8
#else
#define LANES 4
#endif

#ifndef BIAS  // a problem without an epilogue
#define BIAS 0
#define RESIDUAL 0
#define CLIP_LOW 0
#define CLIP_HIGH 0
#define LOW_BITS 0
#define HIGH_BITS 0
#define ACTIVATION 0
#define FACTOR_BITS 0
#endif

#ifndef ONE_BIAS
#define ONE_BIAS 0
#endif

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 64")

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef float loose_vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
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

#define SPREAD(type, number) ((number) - (type){0})

// Where a run of results goes, and what is added to it.
typedef struct {
  float* out;
  const float* bias;      // ONE_BIAS for all of the run, or one for each
  const float* residual;  // like out
} Place;

// Lanes below a limit take the limit; those that are no number stay.
#define LIMIT(x, outside, limit)                                               \
  do {                                                                         \
    __typeof__((x) < (x)) there = outside, given = (__typeof__(there))(limit); \
    x = (__typeof__(x))((there & given) | (~there & (__typeof__(there))(x)));  \
  } while (0)

// The epilogue of a vector of sums, but for an activation. READ(type, from) reads another vector.
#define FINISH(x, type, READ)                                                              \
  do {                                                                                     \
    const float low = from_bits(LOW_BITS), high = from_bits(HIGH_BITS);                    \
    if (BIAS) x += ONE_BIAS ? SPREAD(type, *place.bias) : (type)READ(type, place.bias + l); \
    if (RESIDUAL) x += READ(type, place.residual + l);                                     \
    if (CLIP_LOW) LIMIT(x, x < SPREAD(type, low), SPREAD(type, low));                      \
    if (CLIP_HIGH) LIMIT(x, x > SPREAD(type, high), SPREAD(type, high));                   \
  } while (0)

#define PLAINLY(type, from) (*(const loose_##type*)(from))

#include "activations.h"

INLINE vec finished(vec x, Place place, ptrdiff_t l) {
  FINISH(x, vec, PLAINLY);
  return x;
}

#if defined(__AVX512F__)
// The lanes that have a bit; no other memory is touched.
INLINE vec read_lanes(const float* from, uint16_t lanes) {
  return (vec)__builtin_ia32_loadups512_mask((const void*)from, (vec){0}, lanes);
}

INLINE void write_lanes(float* to, vec x, uint16_t lanes) { __builtin_ia32_storeups512_mask((void*)to, x, lanes); }

INLINE uint16_t lanes_before(ptrdiff_t end) { return (uint16_t)((1u << end) - 1); }

INLINE vec read_some(const float* from, ptrdiff_t count) { return read_lanes(from, lanes_before(count)); }

INLINE void write_some(float* to, vec x, ptrdiff_t count) { write_lanes(to, x, lanes_before(count)); }

// Fewer than a vector of sums, from `l` of a run on, to their place. `add`: to what is there; `last`: nothing comes after.
INLINE void store_part(vec x, Place place, ptrdiff_t l, ptrdiff_t count, int add, int last) {
#define SOME(type, from) read_some(from, count)
  if (add) x += read_some(place.out + l, count);
  if (last) FINISH(x, vec, SOME);
  if (ACTIVATION && last) x = activated(x);
  write_some(place.out + l, x, count);
}
#else
#define STORE(name, type, width)                                                                       \
  INLINE void name(const float* sums, Place place, ptrdiff_t l, ptrdiff_t end, int add, int last) {     \
    for (; l < end; l += width) {                                                                      \
      type x = *(const loose_##type*)(sums + l);                                                       \
      if (add) x += *(const loose_##type*)(place.out + l);                                             \
      if (last) FINISH(x, type, PLAINLY);                                                              \
      *(loose_##type*)(place.out + l) = x;                                                             \
    }                                                                                                  \
  }
STORE(store_quads, quad, 4)
STORE(store_singles, single, 1)

INLINE void store_part(vec x, Place place, ptrdiff_t l, ptrdiff_t count, int add, int last) {
  float sums[LANES] __attribute__((aligned(64)));
  *(vec*)sums = x;
  place = (Place){place.out + l, ONE_BIAS ? place.bias : place.bias + l, place.residual + l};
  store_quads(sums, place, 0, count / 4 * 4, add, last);
  store_singles(sums, place, count / 4 * 4, count, add, last);
  if (ACTIVATION && last) {
    for (ptrdiff_t i = 0; i < count; ++i) sums[i] = place.out[i];
    *(vec*)sums = activated(*(vec*)sums);
    for (ptrdiff_t i = 0; i < count; ++i) place.out[i] = sums[i];
  }
}
#endif

// `count` sums of a vector.
INLINE void store_some(vec x, Place place, ptrdiff_t l, ptrdiff_t count, int add, int last) {
  if (count < LANES) {
    store_part(x, place, l, count, add, last);
    return;
  }
  if (add) x += *(const loose_vec*)(place.out + l);
  if (last) x = finished(x, place, l);
  if (ACTIVATION && last) x = activated(x);
  *(loose_vec*)(place.out + l) = x;
}

// `count` sums from memory, in which vectors are whole.
INLINE void store(const float* restrict sums, Place place, ptrdiff_t count, int add, int last) {
  for (ptrdiff_t l = 0; l < count; l += LANES) store_some(*(const loose_vec*)(sums + l), place, l, count - l, add, last);
}

// `count` numbers that are `step` apart, one after the other.
INLINE void gather(const float* restrict from, ptrdiff_t step, ptrdiff_t count, float* restrict to) {
  ptrdiff_t l = 0;
#if defined(__AVX512F__)
  if (step == 1) {
    for (; l + LANES <= count; l += LANES) *(loose_vec*)(to + l) = *(const loose_vec*)(from + l);
    if (l < count) write_some(to + l, read_some(from + l, count - l), count - l);
    return;
  }
  if (step == 2) {
    for (; l < count; l += LANES) {
      const ptrdiff_t have = least(2 * (count - l) - 1, 2 * LANES - 1);  // numbers up to the last one that counts
      vec a = read_some(from + 2 * l, least(have, LANES)), b = read_some(from + 2 * l + LANES, most(have - LANES, 0));
      write_some(to + l, SHUFFLE(a, b, EVENS), least(count - l, LANES));
    }
    return;
  }
#else
  if (step == 1 && count >= LANES) {
    for (; l + LANES <= count; l += LANES) *(loose_vec*)(to + l) = *(const loose_vec*)(from + l);
    *(loose_vec*)(to + count - LANES) = *(const loose_vec*)(from + count - LANES);
    return;
  }
  if (step == 1 && count >= 4) {
    for (; l + 4 <= count; l += 4) *(loose_quad*)(to + l) = *(const loose_quad*)(from + l);
    *(loose_quad*)(to + count - 4) = *(const loose_quad*)(from + count - 4);
    return;
  }
  if (step == 2) {
    for (; l + 4 < count; l += 4) {  // the last four would read one beyond
      quad a = *(const loose_quad*)(from + 2 * l), b = *(const loose_quad*)(from + 2 * l + 4);
      *(loose_quad*)(to + l) = SHUFFLE(a, b, 0, 2, 4, 6);
    }
  }
#endif
  for (; l < count; ++l) to[l] = from[l * step];
}

INLINE void zeros(float* to, ptrdiff_t count) {
  ptrdiff_t l = 0;
  for (; l + LANES <= count; l += LANES) *(loose_vec*)(to + l) = (vec){0};
  for (; l + 4 <= count; l += 4) *(loose_quad*)(to + l) = (quad){0};
  for (; l < count; ++l) to[l] = 0.0f;
}
