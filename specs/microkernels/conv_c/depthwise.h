// Channels last, a filter for each channel: channels in the lanes of vectors, and AT_ONCE pixels of a row at a time, so
// that a weight is loaded once for all of them.

#define AT_ONCE 4

// `lanes` channels of a row of the result, from the buffer, where they have the pitch CC.
INLINE void depthwise_row(const Tile* t, const float* restrict buffer, const int32_t* offsets, const float* restrict weights,
                          ptrdiff_t lanes, Place place) {
  const ptrdiff_t taps = t->kh * t->kw;
  for (ptrdiff_t c = 0; c < lanes; c += LANES) {
    const ptrdiff_t have = least(LANES, lanes - c);
    for (ptrdiff_t x = 0; x < t->wo; x += AT_ONCE) {
      vec sum[AT_ONCE];
      float sums[LANES] __attribute__((aligned(64)));
      UNROLL
      for (int i = 0; i < AT_ONCE; ++i) sum[i] = (vec){0};
      for (ptrdiff_t k = 0; k < taps; ++k) {
        const float* from = buffer + (offsets[k] + x) * PITCH + c;
        vec weight = *(const vec*)(weights + k * CC + c);
        UNROLL
        for (int i = 0; i < AT_ONCE; ++i) sum[i] += weight * *(const loose*)(from + i * PITCH);
      }
      for (ptrdiff_t i = 0; i < AT_ONCE && x + i < t->wo; ++i) {
        const ptrdiff_t at = (x + i) * t->f + c;
        *(vec*)sums = sum[i];
        store(sums, (Place){place.out + at, 0, place.biases + c, place.residual + at}, have, 0, 1);
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
      depthwise_row(t, buffer + r * t->width * PITCH, offsets, kernel, count, (Place){out + at, 0, bias + c, residual + at});
    }
  }
}
