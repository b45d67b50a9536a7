// A filter for each channel. AT_ONCE pixels, of a row where channels are in the lanes of vectors and of a column where
// pixels of a row are, so that a weight is loaded once for all of them.

#define AT_ONCE 4
#define CHANNELS_AT_ONCE 8

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
// What of a channel is in one phase of the strides: rows and columns of the image, and where they go. The same for all channels.
typedef struct {
  ptrdiff_t from, to, first, end, count;
} Phase;

INLINE ptrdiff_t list_phases(const Tile* t, Phase* phases) {
  ptrdiff_t found = 0;
  for (ptrdiff_t a = 0; a < t->stride_h; ++a) {
    const ptrdiff_t top = t->row * t->stride_h + a - t->pad_h;  // of the image, in the first row
    for (ptrdiff_t b = 0; b < t->stride_w; ++b) {
      if (!(t->used_h >> a & t->used_w >> b & 1)) continue;
      const Columns columns = columns_of(t, b - t->pad_w);
      Phase* phase = phases + found;
      phase->from = top * t->w + columns.first + columns.left * t->stride_w;
      phase->to = found++ * t->rows * t->width + columns.left;
      phase->first = top < 0 ? (-top + t->stride_h - 1) / t->stride_h : 0;
      phase->end = least(t->rows, (t->h - top + t->stride_h - 1) / t->stride_h);
      phase->count = columns.end - columns.left;
    }
  }
  return found;
}

// What the tile reads of one channel, into a buffer that had zeros before the first: padding is never written.
INLINE void refill(const Tile* t, const Phase* phase, const Phase* end, const float* restrict image, float* restrict to) {
  const ptrdiff_t step = t->stride_w, down = t->stride_h * t->w, width = t->width;
  for (; phase < end; ++phase) {
    const ptrdiff_t count = phase->count;
    const float* from = image + phase->from;
    float* row = to + phase->to;
#if defined(__AVX512F__)
    if (step == 1 && count <= LANES) {
      for (ptrdiff_t r = phase->first; r < phase->end; ++r) write_some(row + r * width, read_some(from + r * down, count), count);
      continue;
    }
    if (step == 2 && count <= LANES) {
      const ptrdiff_t have = most(2 * count - 1, 0), first = least(have, LANES), rest = have - first;
      for (ptrdiff_t r = phase->first; r < phase->end; ++r) {
        vec x = read_some(from + r * down, first), y = read_some(from + r * down + LANES, rest);
        write_some(row + r * width, SHUFFLE(x, y, EVENS), count);
      }
      continue;
    }
#endif
    for (ptrdiff_t r = phase->first; r < phase->end; ++r) gather(from + r * down, step, count, row + r * width);
  }
}

// One channel from its buffer. Rows behind the last are the last one again.
INLINE void depthwise_channel(const Tile* t, const float* restrict buffer, const int32_t* offsets,
                              const float* restrict weights, Place place) {
  for (ptrdiff_t r = 0; r < t->tile_rows; r += AT_ONCE) {
    const ptrdiff_t have = least(AT_ONCE, t->tile_rows - r);
    ptrdiff_t down[AT_ONCE];
    UNROLL
    for (int i = 0; i < AT_ONCE; ++i) down[i] = (r + least(i, have - 1)) * t->width;
    for (ptrdiff_t x = 0; x < t->wo; x += LANES) {
      vec sum[AT_ONCE];
      UNROLL
      for (int i = 0; i < AT_ONCE; ++i) sum[i] = (vec){0};
      UNROLL
      for (ptrdiff_t k = 0; k < TAPS; ++k) {
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
  Phase phases[TAPS];
  const ptrdiff_t used_phases = list_phases(t, phases);
  // Some channels at once: what was just written in parts is slow to read as whole vectors.
  const ptrdiff_t at_once = most(1, least(CHANNELS_AT_ONCE, BUFFER / t->plane));
  zeros(buffer, at_once * t->plane + SLACK);
  for (ptrdiff_t c = first; c < end; c += at_once) {
    const ptrdiff_t last = least(end, c + at_once);
    for (ptrdiff_t i = c; i < last; ++i) refill(t, phases, phases + used_phases, image + i * t->h * t->w, buffer + (i - c) * t->plane);
    for (ptrdiff_t i = c; i < last; ++i) {
      const ptrdiff_t at = i * plane + t->row * t->wo;
      const Place place = {out + at, bias + i, residual + at};
      depthwise_channel(t, buffer + (i - c) * t->plane, offsets, weights + i * taps, place);
    }
  }
}
#endif
