// Channels last: filters in the lanes, MR pixels below each other, and CC channels of a pixel side by side in the buffer.

INLINE ptrdiff_t channels_at_once(const Tile* t) {
  (void)t;
  return CC;
}

// NR filters, whose panel or columns begin at `weights`: taps are `tap_step` apart there, channels `step`.
INLINE void filters(const Tile* t, const float* buffer, const int32_t* offsets, ptrdiff_t count, const float* weights,
                    ptrdiff_t tap_step, ptrdiff_t step, ptrdiff_t filter, Results results) {
  // Rows that follow each other without a gap are one.
  const ptrdiff_t joined = t->width == t->wo, lines = joined ? 1 : t->tile_rows, taps = t->kh * t->kw;
  const ptrdiff_t length = joined ? t->tile_rows * t->wo : t->wo, lanes = least(NR, t->filters - filter);
  for (ptrdiff_t r = 0; r < lines; ++r)
    for (ptrdiff_t x = 0; x < length; x += MR) {
      const float* from = buffer + (r * t->width + x) * PITCH;
      vec sum[MR][NV];
      clear(sum, NV);
      for (ptrdiff_t k = 0; k < taps; ++k)
        multiply_rows(sum, from + offsets[k] * (ptrdiff_t)PITCH, PITCH, weights + k * tap_step, step, count, NV);
      const ptrdiff_t at = ((t->row + r) * t->wo + x) * t->f + filter;
      const Place place = {results.out + at, results.bias + filter, results.residual + at};
      put(sum, place, t->f, least(MR, length - x), lanes, results.add, results.last, NV);
    }
}

static void channels(const Tile* t, const float* buffer, const int32_t* offsets, const float* weights, ptrdiff_t c,
                     ptrdiff_t count, ptrdiff_t filter, ptrdiff_t filters_end, Results results) {
  const ptrdiff_t steps = t->kh * t->kw * t->channels, step = PACKED ? NR : t->f;
  for (ptrdiff_t f = filter; f < filters_end; f += NR) {
    const float* panel = PACKED ? weights + f * steps + c * NR : weights + c * t->f + f;
    filters(t, buffer, offsets, count, panel, t->channels * step, step, f, results);
  }
}
