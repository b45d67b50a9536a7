// Channels first. AT_ONCE pixels of the tile, whatever row they are in, come side by side into a panel, a line for each channel and
// tap, which stays in the first cache while all filters go over it. Pixels are in the lanes of vectors and MR filters below
// each other; FILTERS_ACROSS has filters in the lanes and MR pixels below each other, and writes transposed, for images
// smaller than a vector.

#define AT_ONCE (FILTERS_ACROSS ? MR : NR)
#define COPIES (2 * AT_ONCE)

// Vectors that are copied for each line of a panel: where they go and where they come from.
typedef struct {
  ptrdiff_t count;
  int32_t to[COPIES], from[COPIES];
} Copies;

// Where the pixels from `l` on lie in the buffer of a tap. A vector may go over the end of a row, and even of the line:
// what it writes there is written again by the next. Behind the last pixel of the tile comes whatever is there.
INLINE void find_copies(const Tile* t, ptrdiff_t l, Copies* copies) {
  copies->count = 0;
  for (ptrdiff_t to = 0; to < AT_ONCE;) {
    const ptrdiff_t row = least(l / t->wo, t->tile_rows - 1), x = l - row * t->wo;
    const ptrdiff_t left = AT_ONCE - to, last = row == t->tile_rows - 1 || t->width == t->wo;
    const ptrdiff_t count = last ? left : least(left, t->wo - x);
    for (ptrdiff_t v = 0; v < count; v += LANES) {
      copies->to[copies->count] = to + v;
      copies->from[copies->count++] = row * t->width + x + v;
    }
    to += count;
    l += count;
  }
}

INLINE void make_lines(const float* restrict buffer, const int32_t* restrict offsets, ptrdiff_t depth,
                       const Copies* restrict copies, float* restrict panel, const ptrdiff_t count) {
  for (ptrdiff_t p = 0; p < depth; ++p, panel += AT_ONCE) {
    const float* from = buffer + offsets[p];
    UNROLL
    for (ptrdiff_t v = 0; v < count; ++v) *(loose_vec*)(panel + copies->to[v]) = *(const loose_vec*)(from + copies->from[v]);
  }
}

// Numbers of copies that the compiler knows stay in registers: pixels of one row, of two and of three.
static __attribute__((noinline)) void make_panel(const float* restrict buffer, const int32_t* restrict offsets,
                                                 ptrdiff_t depth, const Copies* restrict copies, float* restrict panel) {
  const ptrdiff_t vectors = (AT_ONCE + LANES - 1) / LANES;
  if (copies->count == vectors)
    make_lines(buffer, offsets, depth, copies, panel, vectors);
  else if (copies->count == vectors + 1)
    make_lines(buffer, offsets, depth, copies, panel, vectors + 1);
  else if (copies->count == vectors + 2)
    make_lines(buffer, offsets, depth, copies, panel, vectors + 2);
  else
    make_lines(buffer, offsets, depth, copies, panel, copies->count);
}

// The same from the image itself, where nothing is beside the pixels that may be read.
static __attribute__((noinline)) void make_plain_panel(const float* restrict image, ptrdiff_t plane, ptrdiff_t depth,
                                                       ptrdiff_t have, float* restrict panel) {
  for (ptrdiff_t p = 0; p < depth; ++p, panel += AT_ONCE, image += plane) {
    if (have == AT_ONCE) {
      UNROLL
      for (int v = 0; v < AT_ONCE; v += 16) __builtin_prefetch(image + AT_ONCE + v);  // for the next one
      gather(image, 1, AT_ONCE, panel);  // a number that the compiler knows
    } else {
      gather(image, 1, have, panel);
      zeros(panel + have, AT_ONCE - have);
    }
  }
}

// The same where strides go over pixels: all lines have them in the same places, and the last one stands for those behind it.
static __attribute__((noinline)) void make_strided_panel(const Tile* t, const float* restrict image, ptrdiff_t depth,
                                                         ptrdiff_t l, float* restrict panel) {
  const ptrdiff_t plane = t->h * t->w, last = t->tile_rows * t->wo - 1;
  ptrdiff_t from[AT_ONCE];
  for (ptrdiff_t i = 0; i < AT_ONCE; ++i) {
    const ptrdiff_t pixel = least(l + i, last);
    from[i] = pixel / t->wo * t->stride_h * t->w + pixel % t->wo * t->stride_w;
  }
  for (ptrdiff_t p = 0; p < depth; ++p, panel += AT_ONCE, image += plane) {
    UNROLL
    for (int i = 0; i < AT_ONCE; ++i) panel[i] = image[from[i]];
  }
}

#if defined(__AVX512F__)
// `depth` steps, while the weights of the next block come near: they are far from these, and may be in no cache yet.
INLINE void multiply_ahead(vec sum[MR][NV], const float* restrict taps, const float* next, const float* restrict panel,
                           ptrdiff_t apart, ptrdiff_t depth, const int nv) {
  for (ptrdiff_t p = 0; p < depth; ++p, taps += MR, next += MR, panel += apart) {
    __builtin_prefetch(next);
    step(sum, taps, 1, panel, nv);
  }
}
#endif

// `have` pixels from `l` of the tile on, in `nv` vectors, of all filters: lines of the panel are `apart`.
INLINE void filters(const Tile* t, const float* restrict panel, ptrdiff_t apart, ptrdiff_t depth, const float* weights,
                    ptrdiff_t filter, ptrdiff_t filters_end, ptrdiff_t l, ptrdiff_t have, Results results, const int nv) {
  const ptrdiff_t plane = t->ho * t->wo, steps = t->kh * t->kw * t->channels;
  for (ptrdiff_t f = filter; f < filters_end; f += WIDTH) {
    const ptrdiff_t at = f * plane + t->row * t->wo + l;
    const float* taps = weights + f * steps;
    vec sum[MR][NV];
    clear(sum, nv);
    if (!FILTERS_ACROSS) expect(results.out + at, plane, nv);
#if FILTERS_ACROSS
    multiply(sum, panel, taps, NR, depth, nv);
    float sums[MR][NR] __attribute__((aligned(64))), turned[MR + LANES];
    UNROLL
    for (int i = 0; i < MR; ++i) {
      UNROLL
      for (int j = 0; j < NV; ++j) *(vec*)(sums[i] + j * LANES) = sum[i][j];
    }
    for (ptrdiff_t j = 0; j < least(NR, t->filters - f); ++j) {
      for (ptrdiff_t i = 0; i < have; ++i) turned[i] = sums[i][j];
      const ptrdiff_t there = at + j * plane;
      const Place place = {results.out + there, results.bias + f + j, results.residual + there};
      store(turned, place, have, results.add, results.last);
    }
#else
    if (PACKED)
#if defined(__AVX512F__)
      multiply_ahead(sum, taps, weights + (f + MR < filters_end ? f + MR : filter) * steps, panel, apart, depth, nv);
#else
      multiply(sum, taps, panel, apart, depth, nv);
#endif
    else
      multiply_rows(sum, taps, steps, panel, apart, depth, nv);
    const Place place = {results.out + at, results.bias + f, results.residual + at};
    put(sum, place, plane, least(MR, t->filters - f), have, results.add, results.last, nv);
#endif
  }
}

#define VECTORS_(n)                                                                                                     \
  static __attribute__((noinline)) void filters_##n(const Tile* t, const float* panel, ptrdiff_t apart,               \
                                                    ptrdiff_t depth, const float* weights, ptrdiff_t filter,          \
                                                    ptrdiff_t end, ptrdiff_t l, ptrdiff_t have, const Results* results) { \
    filters(t, panel, apart, depth, weights, filter, end, l, have, *results, n);                                      \
  }

VECTORS_(1)
VECTORS_(2)
VECTORS_(3)
VECTORS_(4)

// As many vectors as there are pixels for.
INLINE void pixels(const Tile* t, const float* panel, ptrdiff_t apart, ptrdiff_t depth, const float* weights,
                   ptrdiff_t filter, ptrdiff_t end, ptrdiff_t l, ptrdiff_t have, const Results* results) {
  const ptrdiff_t vectors = FILTERS_ACROSS ? NV : (have + LANES - 1) / LANES;
  if (NV >= 4 && vectors == 4)
    filters_4(t, panel, apart, depth, weights, filter, end, l, have, results);
  else if (NV >= 3 && vectors == 3)
    filters_3(t, panel, apart, depth, weights, filter, end, l, have, results);
  else if (NV >= 2 && vectors == 2)
    filters_2(t, panel, apart, depth, weights, filter, end, l, have, results);
  else
    filters_1(t, panel, apart, depth, weights, filter, end, l, have, results);
}

static void channels(const Tile* t, const float* from, const int32_t* offsets, const float* weights, ptrdiff_t c,
                     ptrdiff_t count, ptrdiff_t filter, ptrdiff_t end, Results results) {
  float panel[STEPS * AT_ONCE + LANES] __attribute__((aligned(64)));
  const ptrdiff_t taps = t->kh * t->kw, depth = count * taps, all = t->tile_rows * t->wo;
  weights += c * taps * (PACKED ? WIDTH : 1);
  for (ptrdiff_t l = 0; l < all; l += AT_ONCE) {
    const ptrdiff_t have = least(AT_ONCE, all - l);
#if PLAIN
    const float* image = from + t->row * t->stride_h * t->w;
    if (t->stride_h * t->stride_w == 1)
      make_plain_panel(image + l, t->h * t->w, depth, have, panel);
    else
      make_strided_panel(t, image, depth, l, panel);
#else
    Copies copies;
    find_copies(t, l, &copies);
    make_panel(from, offsets, depth, &copies, panel);
#endif
    pixels(t, panel, AT_ONCE, depth, weights, filter, end, l, have, &results);
  }
}
