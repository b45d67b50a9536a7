// Channels first, sixteen lanes: filters are in the lanes and MR pixels of a row below each other, as they lie in the buffer. A block is turned
// in registers before it is stored. No panel is made, and no lane is empty where blocks fill rows.

#define AHEAD 24  // steps by which weights are asked for before they are needed

#define LOW_PAIRS 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29
#define HIGH_PAIRS 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31
#define LOW_FOURS 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#define HIGH_FOURS 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#define EVEN_QUARTERS 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27
#define ODD_QUARTERS 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31

// Rows become columns.
INLINE void turn(vec r[LANES]) {
  vec t[LANES];
  UNROLL
  for (int i = 0; i < 16; i += 2) {
    t[i] = SHUFFLE(r[i], r[i + 1], LOW_PAIRS);
    t[i + 1] = SHUFFLE(r[i], r[i + 1], HIGH_PAIRS);
  }
  UNROLL
  for (int i = 0; i < 16; i += 4) {
    UNROLL
    for (int half = 0; half < 2; ++half) {
      r[i + 2 * half] = SHUFFLE(t[i + half], t[i + 2 + half], LOW_FOURS);
      r[i + 2 * half + 1] = SHUFFLE(t[i + half], t[i + 2 + half], HIGH_FOURS);
    }
  }
  // Quarter q of r[4 * i + c] now has column 4 * q + c of rows 4 * i and the next three.
  UNROLL
  for (int c = 0; c < 4; ++c) {
    UNROLL
    for (int half = 0; half < 16; half += 8) {
      t[half + c] = SHUFFLE(r[half + c], r[half + 4 + c], EVEN_QUARTERS);
      t[half + 4 + c] = SHUFFLE(r[half + c], r[half + 4 + c], ODD_QUARTERS);
    }
  }
  UNROLL
  for (int c = 0; c < 8; ++c) {
    r[c] = SHUFFLE(t[c], t[8 + c], EVEN_QUARTERS);
    r[8 + c] = SHUFFLE(t[c], t[8 + c], ODD_QUARTERS);
  }
}

// `have` pixels from `from` on of NR filters, whose place is `at`.
static __attribute__((noinline)) void block(const Tile* t, const float* restrict from, const int32_t* restrict offsets,
                                            ptrdiff_t depth, const float* restrict weights, ptrdiff_t f, ptrdiff_t at,
                                            ptrdiff_t have, const Results* results) {
  const ptrdiff_t plane = t->ho * t->wo, filters = least(NR, t->filters - f);
  vec sum[MR][NV];
  clear(sum, NV);
  for (ptrdiff_t p = 0; p < depth; ++p, weights += NR) {
    const float* pixels = from + offsets[p];
    __asm__("" : "+r"(pixels));  // one address, not one for each pixel
    UNROLL
    for (int j = 0; j < NV; ++j) __builtin_prefetch(weights + AHEAD * NR + j * LANES);
    step(sum, pixels, 1, weights, NV);
  }
  float turned[NR][LANES] __attribute__((aligned(64)));
  UNROLL
  for (int j = 0; j < NV; ++j) {
    vec rows[LANES];
    UNROLL
    for (int i = 0; i < LANES; ++i) rows[i] = i < MR ? sum[i < MR ? i : 0][j] : (vec){0};
    turn(rows);
    UNROLL
    for (int i = 0; i < LANES; ++i) *(vec*)turned[j * LANES + i] = rows[i];
  }
  for (ptrdiff_t j = 0; j < filters; ++j) {
    const ptrdiff_t there = at + j * plane;
    const Place place = {results->out + there, results->bias + f + j, results->residual + there};
    store_some(*(vec*)turned[j], place, 0, have, results->add, results->last);
  }
}

static void channels(const Tile* t, const float* from, const int32_t* offsets, const float* weights, ptrdiff_t c,
                     ptrdiff_t count, ptrdiff_t filter, ptrdiff_t end, Results results) {
  const ptrdiff_t taps = t->kh * t->kw, depth = count * taps, steps = taps * t->channels, plane = t->ho * t->wo;
  weights += c * taps * NR;
  for (ptrdiff_t f = filter; f < end; f += NR)
    for (ptrdiff_t r = 0; r < t->tile_rows; ++r)
      for (ptrdiff_t x = 0; x < t->wo; x += MR)
        block(t, from + r * t->width + x, offsets, depth, weights + f * steps, f, f * plane + (t->row + r) * t->wo + x,
              least(MR, t->wo - x), &results);
}
