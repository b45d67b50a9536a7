// A filter for each channel. AT_ONCE pixels, of a row where channels are in the lanes of vectors and of a column where
// pixels of a row are, so that a weight is loaded once for all of them.

#define AT_ONCE 4

#if CHANNELS_LAST
// `lanes` channels of a row of the result, from the buffer, where they have the pitch CC.
INLINE void depthwise_row(const Tile* t, const float* restrict buffer, const int32_t* offsets, const float* restrict weights,
                          ptrdiff_t lanes, Place place) {
  const ptrdiff_t taps = t->kh * t->kw;
  for (ptrdiff_t c = 0; c < lanes; c += LANES) {
    const ptrdiff_t have = least(LANES, lanes - c);
    for (ptrdiff_t x = 0; x < t->wo; x += AT_ONCE) {
      vec sum[AT_ONCE];
      UNROLL
      for (int i = 0; i < AT_ONCE; ++i) sum[i] = (vec){0};
      for (ptrdiff_t k = 0; k < taps; ++k) {
        const float* from = buffer + (offsets[k] + x) * PITCH + c;
        vec weight = *(const vec*)(weights + k * CC + c);
        UNROLL
        for (int i = 0; i < AT_ONCE; ++i) sum[i] += weight * *(const loose_vec*)(from + i * PITCH);
      }
      for (ptrdiff_t i = 0; i < AT_ONCE && x + i < t->wo; ++i) {
        const ptrdiff_t at = (x + i) * t->f + c;
        store_some(sum[i], (Place){place.out + at, place.bias + c, place.residual + at}, 0, have, 0, 1);
      }
    }
  }
}

static void depthwise(Tile* t, const float* image, const float* weights, const float* bias, const float* residual,
                      float* out, ptrdiff_t first, ptrdiff_t end, float* buffer) {
  const ptrdiff_t taps = t->kh * t->kw;
  int32_t offsets[TAPS];
  float kernel[TAPS * CC] __attribute__((aligned(64)));
  for (ptrdiff_t k = 0; k < taps; ++k) offsets[k] = tap_offset(t, k / t->kw, k % t->kw);
  for (ptrdiff_t c = first; c < end; c += CC) {
    const ptrdiff_t count = least(CC, end - c);
    fill(t, image + c, count, buffer);
    for (ptrdiff_t k = 0; k < taps; ++k) gather(weights + k * t->c + c, 1, count, kernel + k * CC);
    for (ptrdiff_t r = 0; r < t->tile_rows; ++r) {
      const ptrdiff_t at = (t->row + r) * t->wo * t->f + c;
      depthwise_row(t, buffer + r * t->width * PITCH, offsets, kernel, count, (Place){out + at, bias + c, residual + at});
    }
  }
}
#else
// One channel from its buffer. Rows behind the last are the last one again.
INLINE void depthwise_channel(const Tile* t, const float* restrict buffer, const int32_t* offsets,
                              const float* restrict weights, Place place) {
  const ptrdiff_t taps = t->kh * t->kw;
  for (ptrdiff_t r = 0; r < t->tile_rows; r += AT_ONCE) {
    const ptrdiff_t have = least(AT_ONCE, t->tile_rows - r);
    ptrdiff_t down[AT_ONCE];
    UNROLL
    for (int i = 0; i < AT_ONCE; ++i) down[i] = (r + least(i, have - 1)) * t->width;
    for (ptrdiff_t x = 0; x < t->wo; x += LANES) {
      vec sum[AT_ONCE];
      UNROLL
      for (int i = 0; i < AT_ONCE; ++i) sum[i] = (vec){0};
      for (ptrdiff_t k = 0; k < taps; ++k) {
        const float* from = buffer + offsets[k] + x;
        UNROLL
        for (int i = 0; i < AT_ONCE; ++i) sum[i] += weights[k] * *(const loose_vec*)(from + down[i]);
      }
      UNROLL
      for (int i = 0; i < AT_ONCE; ++i) {
        if (i >= have) break;
        const ptrdiff_t at = (r + i) * t->wo + x;
        store_some(sum[i], (Place){place.out + at, place.bias, place.residual + at}, 0, t->wo - x, 0, 1);
      }
    }
  }
}

static void depthwise(Tile* t, const float* image, const float* weights, const float* bias, const float* residual,
                      float* out, ptrdiff_t first, ptrdiff_t end, float* buffer) {
  const ptrdiff_t taps = t->kh * t->kw, plane = t->ho * t->wo;
  int32_t offsets[TAPS];
  for (ptrdiff_t k = 0; k < taps; ++k) offsets[k] = tap_offset(t, k / t->kw, k % t->kw);
  clear_ends(t, 1, buffer);
  for (ptrdiff_t c = first; c < end; ++c) {
    const ptrdiff_t at = c * plane + t->row * t->wo;
    fill(t, image + c * t->h * t->w, 1, buffer);
    depthwise_channel(t, buffer, offsets, weights + c * taps, (Place){out + at, bias + c, residual + at});
  }
}
#endif
