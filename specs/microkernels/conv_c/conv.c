// A convolution in f32 as an implicit matrix product: the image is never unrolled. One source for AVX-512, AVX2, NEON and
// whatever else has GCC's vector extensions.
//
// One call computes the tile of one workgroup: `tile_rows` rows of the result, `tile_filters` filters of `tile_groups`
// groups of one image. What the tile reads of some channels is copied into a buffer on the stack, with zeros for the
// padding and split by the strides: what was `stride` apart is side by side, so that neighbours in the result have
// neighbours in the buffer, whatever the tap of the filter. Where a tap begins stands in a table. A block of registers
// then goes over channels and taps.
//
// Channels first: FILTERS_ACROSS 0 has pixels in the lanes of vectors and MR filters below each other; 1 has filters in
// the lanes and MR pixels below each other, and writes transposed, for images smaller than a vector. Rows of the buffer
// follow each other, so a vector of pixels may go over the end of a row: what it computes there is thrown away.
// Channels last: filters in the lanes, and the buffer has CC channels of a pixel side by side.
//
// PACKED weights come in panels of what a block takes, MR or NR filters; others are packed here (channels first) or
// lie right (channels last, one group). Nothing is shared between calls, nothing is allocated and no library is called.

#include "vectors.h"

#define NR (NV * LANES)
#define MOST_STEPS (PACKED ? 1024 : 512)
#define SLACK 256  // a block at the end of the buffer reads beyond what counts

#if CHANNELS_LAST
#define PITCH (CC + (CC % 64 ? 0 : 16))  // of pixels: not the same sets of the cache for all
#else
#define PITCH 1
#endif

typedef struct {
  ptrdiff_t h, w, c, kh, kw, f, stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w, ho, wo;
  ptrdiff_t channels, filters;  // of a group
  ptrdiff_t rows, width, slots_w, plane;  // of the buffer: one phase of the strides; all of a channel
  ptrdiff_t row, tile_rows;
  uint64_t used_h, used_w;  // a bit for each phase of the strides that a tap needs
} Tile;

INLINE uint64_t used(ptrdiff_t taps, ptrdiff_t stride, ptrdiff_t dilation) {
  uint64_t bits = 0;
  for (ptrdiff_t t = 0; t < taps; ++t) bits |= (uint64_t)1 << t * dilation % stride;
  return bits;
}

// Phases that are used have numbers without gaps.
INLINE ptrdiff_t slot(uint64_t bits, ptrdiff_t phase) {
  ptrdiff_t before = 0;
  for (ptrdiff_t other = 0; other < phase; ++other) before += bits >> other & 1;
  return before;
}

// Where a tap begins in the buffer of a channel (of all channels that lie side by side).
INLINE ptrdiff_t tap_offset(const Tile* t, ptrdiff_t y, ptrdiff_t x) {
  const ptrdiff_t down = y * t->dilation_h, right = x * t->dilation_w;
  const ptrdiff_t phase = slot(t->used_h, down % t->stride_h) * t->slots_w + slot(t->used_w, right % t->stride_w);
  return phase * t->rows * t->width + down / t->stride_h * t->width + right / t->stride_w;
}

#if CHANNELS_LAST
// `count` channels of a pixel, from `from` on, or zeros.
INLINE void copy_row(const Tile* t, const float* row, ptrdiff_t first, ptrdiff_t count, float* to) {
  for (ptrdiff_t x = 0; x < t->width; ++x, to += PITCH) {
    const ptrdiff_t column = first + x * t->stride_w;
    if (row && column >= 0 && column < t->w)
      gather(row + column * t->c, 1, count, to);
    else
      zeros(to, count);
  }
}
#else
// A row of one channel: zeros, what is in the image, zeros.
INLINE void copy_row(const Tile* t, const float* row, ptrdiff_t first, ptrdiff_t count, float* to) {
  (void)count;
  const ptrdiff_t step = t->stride_w;
  const ptrdiff_t left = row ? least(t->width, first < 0 ? (-first + step - 1) / step : 0) : t->width;
  const ptrdiff_t end = row ? most(left, least(t->width, (t->w - first + step - 1) / step)) : t->width;
  zeros(to, left);
  gather(row + first + left * step, step, end - left, to + left);
  zeros(to + end, t->width - end);
}
#endif

// What the tile reads of channels: `count` from `image` on.
static __attribute__((noinline)) void fill(const Tile* t, const float* restrict image, ptrdiff_t count, float* restrict to) {
  const ptrdiff_t planes = CHANNELS_LAST ? 1 : count;
  const ptrdiff_t pixel = CHANNELS_LAST ? t->c : 1;
  for (ptrdiff_t c = 0; c < planes; ++c, image += t->h * t->w, to += t->plane) {
    float* row = to;
    for (ptrdiff_t a = 0; a < t->stride_h; ++a) {
      for (ptrdiff_t b = 0; b < t->stride_w; ++b) {
        if (!(t->used_h >> a & t->used_w >> b & 1)) continue;
        if (!CHANNELS_LAST && t->width == t->w && t->stride_h == 1 && t->stride_w == 1 && !t->pad_h) {
          gather(image + t->row * t->w, 1, t->rows * t->width, row);  // rows follow each other in the image too
          row += t->rows * t->width;
          continue;
        }
        for (ptrdiff_t r = 0; r < t->rows; ++r, row += t->width * PITCH) {
          const ptrdiff_t y = (t->row + r) * t->stride_h + a - t->pad_h;
          copy_row(t, y >= 0 && y < t->h ? image + y * t->w * pixel : 0, b - t->pad_w, count, row);
        }
      }
    }
    // Blocks read beyond the end of what counts: what happens to lie there may be numbers so small that they cost time.
    if (!CHANNELS_LAST) zeros(row, to + t->plane - row + (c + 1 < planes ? 0 : SLACK));
  }
}

#if DEPTHWISE && CHANNELS_LAST
#include "depthwise.h"
#else

// sums[MR][NR] of `depth` steps: each adds scalars, MR of them side by side or `apart`, times a vector.
#if CHANNELS_LAST
// Taps from the table, and at each `count` channels that lie side by side in the buffer and NR filters in the weights.
INLINE void block(const float* restrict image, const int32_t* restrict offsets, ptrdiff_t taps, ptrdiff_t count,
                  const float* restrict weights, ptrdiff_t tap_step, ptrdiff_t step, float* restrict sums) {
  vec sum[MR][NV];
  UNROLL
  for (int i = 0; i < MR; ++i) {
    UNROLL
    for (int j = 0; j < NV; ++j) sum[i][j] = (vec){0};
  }
  for (ptrdiff_t t = 0; t < taps; ++t, weights += tap_step) {
    const float* a = image + offsets[t] * (ptrdiff_t)PITCH;
    const float* b = weights;
    ptrdiff_t p = 0;
#if defined(__aarch64__)
    for (; p + 4 <= count; p += 4) {  // four channels of each pixel in a register, from which lanes are multiplied
      quad left[MR];
      UNROLL
      for (int i = 0; i < MR; ++i) left[i] = *(const loose_quad*)(a + i * PITCH + p);
      UNROLL
      for (int q = 0; q < 4; ++q, b += step) {
        vec right[NV];
        UNROLL
        for (int j = 0; j < NV; ++j) right[j] = *(const loose*)(b + j * LANES);
        UNROLL
        for (int i = 0; i < MR; ++i) {
          UNROLL
          for (int j = 0; j < NV; ++j) sum[i][j] += left[i][q] * right[j];
        }
      }
    }
#endif
    for (; p < count; ++p, b += step) {
      vec right[NV];
      UNROLL
      for (int j = 0; j < NV; ++j) right[j] = *(const loose*)(b + j * LANES);
      UNROLL
      for (int i = 0; i < MR; ++i) {
        UNROLL
        for (int j = 0; j < NV; ++j) sum[i][j] += a[i * PITCH + p] * right[j];
      }
    }
  }
  UNROLL
  for (int i = 0; i < MR; ++i) {
    UNROLL
    for (int j = 0; j < NV; ++j) *(vec*)(sums + i * NR + j * LANES) = sum[i][j];
  }
}
#else
INLINE void block(const float* restrict image, const int32_t* restrict offsets, ptrdiff_t depth,
                  const float* restrict weights, float* restrict sums) {
  vec sum[MR][NV];
  UNROLL
  for (int i = 0; i < MR; ++i) {
    UNROLL
    for (int j = 0; j < NV; ++j) sum[i][j] = (vec){0};
  }
#if defined(__aarch64__)
  _Pragma("GCC unroll 4")  // with fewer branches there are more products under way
#endif
  for (ptrdiff_t p = 0; p < depth; ++p, weights += WIDTH) {
    const float* pixels = image + offsets[p];
    const float* a = FILTERS_ACROSS ? pixels : weights;
    const float* b = FILTERS_ACROSS ? weights : pixels;
    vec right[NV];
    UNROLL
    for (int j = 0; j < NV; ++j) right[j] = *(const loose*)(b + j * LANES);
#if defined(__aarch64__)
    quad left[MR / 4 + 1];  // lanes of a register are multiplied: no broadcast takes the place of a product
    UNROLL
    for (int i = 0; i + 4 <= MR; i += 4) left[i / 4] = *(const loose_quad*)(a + i);
    UNROLL
    for (int i = 0; i < MR / 4 * 4; ++i) {
      UNROLL
      for (int j = 0; j < NV; ++j) sum[i][j] += left[i / 4][i % 4] * right[j];
    }
    UNROLL
    for (int i = MR / 4 * 4; i < MR; ++i) {
#else
    UNROLL
    for (int i = 0; i < MR; ++i) {
#endif
      UNROLL
      for (int j = 0; j < NV; ++j) sum[i][j] += a[i] * right[j];
    }
  }
  UNROLL
  for (int i = 0; i < MR; ++i) {
    UNROLL
    for (int j = 0; j < NV; ++j) *(vec*)(sums + i * NR + j * LANES) = sum[i][j];
  }
}
#endif

// All that a block's results need to find their places; `out` and `residual` are those of the group in the image.
typedef struct {
  float* out;
  const float* residual;
  const float* bias;
  int add, last;
} Results;

#if CHANNELS_LAST
INLINE void blocks(const Tile* t, const float* buffer, const int32_t* offsets, ptrdiff_t count, const float* weights,
                   ptrdiff_t tap_step, ptrdiff_t step, ptrdiff_t filter, Results results, float* sums) {
  // Rows that follow each other without a gap are one.
  const ptrdiff_t joined = t->width == t->wo, lines = joined ? 1 : t->tile_rows;
  const ptrdiff_t length = joined ? t->tile_rows * t->wo : t->wo, lanes = least(NR, t->filters - filter);
  for (ptrdiff_t r = 0; r < lines; ++r)
    for (ptrdiff_t x = 0; x < length; x += MR) {
      block(buffer + (r * t->width + x) * PITCH, offsets, t->kh * t->kw, count, weights, tap_step, step, sums);
      for (ptrdiff_t i = 0; i < MR && x + i < length; ++i) {
        const ptrdiff_t at = ((t->row + r) * t->wo + x + i) * t->f + filter;
        const Place place = {results.out + at, 0, results.bias + filter, results.residual + at};
        if (lanes == NR)
          store(sums + i * NR, place, NR, results.add, results.last);  // a number that the compiler knows
        else
          store(sums + i * NR, place, lanes, results.add, results.last);
      }
    }
}
#elif FILTERS_ACROSS
INLINE void blocks(const Tile* t, const float* buffer, const int32_t* offsets, ptrdiff_t depth, const float* weights,
                   ptrdiff_t filter, Results results, float* sums) {
  const ptrdiff_t joined = t->width == t->wo, lines = joined ? 1 : t->tile_rows;
  const ptrdiff_t length = joined ? t->tile_rows * t->wo : t->wo, filters = least(NR, t->filters - filter);
  for (ptrdiff_t r = 0; r < lines; ++r)
    for (ptrdiff_t x = 0; x < length; x += MR) {
      block(buffer + r * t->width + x, offsets, depth, weights, sums);
      const ptrdiff_t pixels = least(MR, length - x);
      for (ptrdiff_t j = 0; j < filters; ++j) {
        float turned[MR];
        for (ptrdiff_t i = 0; i < pixels; ++i) turned[i] = sums[i * NR + j];
        const ptrdiff_t at = ((filter + j) * t->ho + t->row + r) * t->wo + x;
        const Place place = {results.out + at, results.bias + filter + j, 0, results.residual + at};
        store(turned, place, pixels, results.add, results.last);
      }
    }
}
#else
// Pixels of a tile, with those beyond the ends of its rows but the last.
INLINE ptrdiff_t lanes_of(const Tile* t) { return (t->tile_rows - 1) * t->width + t->wo; }

INLINE void blocks(const Tile* t, const float* buffer, const int32_t* offsets, ptrdiff_t depth, const float* weights,
                   ptrdiff_t filter, ptrdiff_t l, Results results, float* sums) {
  const ptrdiff_t filters = least(MR, t->filters - filter), joined = t->width == t->wo;
  const ptrdiff_t end = least(lanes_of(t), l + NR);
  block(buffer + l, offsets, depth, weights, sums);
  for (ptrdiff_t from = l; from < end;) {
    // A run of lanes in one row; beyond the end of a result's row lies what nobody asked for.
    const ptrdiff_t r = joined ? 0 : from / t->width, x = from - r * t->width;
    const ptrdiff_t to = joined ? end : least(end, (r + 1) * t->width);
    const ptrdiff_t count = joined ? to - from : least(to - from, t->wo - x);
    for (ptrdiff_t i = 0; i < filters && count > 0; ++i) {
      const ptrdiff_t at = ((filter + i) * t->ho + t->row + r) * t->wo + x;
      const Place place = {results.out + at, results.bias + filter + i, 0, results.residual + at};
      if (count == NR)
        store(sums + i * NR, place, NR, results.add, results.last);  // a number that the compiler knows
      else
        store(sums + i * NR + from - l, place, count, results.add, results.last);
    }
    from = to;
  }
}

#if !PACKED
// MR filters, whose steps are side by side in the weights, as a panel.
INLINE void pack(const float* restrict weights, ptrdiff_t apart, ptrdiff_t depth, ptrdiff_t have, float* restrict to) {
  for (ptrdiff_t p = 0; p < depth; ++p) {
    UNROLL
    for (int i = 0; i < MR; ++i) to[p * MR + i] = i < have ? weights[i * apart + p] : 0.0f;
  }
}
#endif
#endif

// How many channels the buffer takes at a time.
INLINE ptrdiff_t channels_at_once(const Tile* t) {
  if (CHANNELS_LAST) return CC;
  const ptrdiff_t fit = most(1, least(least(t->channels, BUFFER / t->plane), MOST_STEPS / (t->kh * t->kw)));
  const ptrdiff_t times = (t->channels + fit - 1) / fit;
  return (t->channels + times - 1) / times;
}

// Where each step begins in the buffer: the taps of a channel, and channels first those of all channels.
INLINE void fill_offsets(const Tile* t, int32_t* offsets) {
  const ptrdiff_t taps = t->kh * t->kw, planes = CHANNELS_LAST ? 1 : channels_at_once(t);
  for (ptrdiff_t k = 0; k < taps; ++k) {
    const ptrdiff_t offset = tap_offset(t, k / t->kw, k % t->kw);
    for (ptrdiff_t c = 0; c < planes; ++c) offsets[c * taps + k] = c * t->plane + offset;
  }
}

static void group(const Tile* t, const float* image, const float* weights, Results results, ptrdiff_t filter,
                  ptrdiff_t filters_end, float* buffer, const int32_t* offsets, float* sums) {
  const ptrdiff_t taps = t->kh * t->kw, steps = taps * t->channels, most_channels = channels_at_once(t);
  for (ptrdiff_t c = 0; c < t->channels; c += most_channels) {
    const ptrdiff_t count = least(most_channels, t->channels - c);
    fill(t, image + c * (CHANNELS_LAST ? 1 : t->h * t->w), count, buffer);
    results.add = c > 0;
    results.last = c + count == t->channels;
#if PACKED && !FILTERS_ACROSS
    // The pixels of a block, from many places, stay in the first cache; weights come one after the other.
    for (ptrdiff_t l = 0; l < lanes_of(t); l += NR)
      for (ptrdiff_t f = filter; f < filters_end; f += MR)
        blocks(t, buffer, offsets, count * taps, weights + f * steps + c * taps * MR, f, l, results, sums);
#else
    for (ptrdiff_t f = filter; f < filters_end; f += WIDTH) {
#if CHANNELS_LAST
      const float* panel = PACKED ? weights + f * steps + c * NR : weights + c * t->f + f;
      const ptrdiff_t step = PACKED ? NR : t->f;
      blocks(t, buffer, offsets, count, panel, t->channels * step, step, f, results, sums);
#elif PACKED
      blocks(t, buffer, offsets, count * taps, weights + f * steps + c * taps * WIDTH, f, results, sums);
#else
      float panel[MR * MOST_STEPS];
      pack(weights + f * steps + c * taps, steps, count * taps, least(MR, t->filters - f), panel);
      for (ptrdiff_t l = 0; l < lanes_of(t); l += NR)
        blocks(t, buffer, offsets, count * taps, panel, f, l, results, sums);
#endif
    }
#endif
  }
}
#endif

void conv(const float* restrict image, const float* restrict weights,
#if BIAS
          const float* restrict bias,
#endif
#if RESIDUAL
          const float* restrict residual,
#endif
          float* restrict out, int32_t h, int32_t w, int32_t c, int32_t kh, int32_t kw, int32_t f, int32_t stride_h,
          int32_t stride_w, int32_t dilation_h, int32_t dilation_w, int32_t pad_h, int32_t pad_w, int32_t groups,
          int32_t ho, int32_t wo, int32_t tile_rows, int32_t tile_filters, int32_t tile_groups, size_t tile_y,
          size_t tile_f, size_t tile_z) {
  float buffer[BUFFER + SLACK] __attribute__((aligned(64)));
#if !BIAS
  const float* bias = 0;
#endif
#if !RESIDUAL
  const float* residual = 0;
#endif
  const ptrdiff_t tiles = (groups + tile_groups - 1) / tile_groups;
  const ptrdiff_t entry = tile_z / tiles, first = tile_z % tiles * tile_groups, row = (ptrdiff_t)tile_y * tile_rows;
  Tile t = {h, w, c, kh, kw, f, stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w, ho, wo, c / groups, f / groups};
  t.row = row;
  t.tile_rows = least(tile_rows, ho - row);
  t.rows = t.tile_rows + (kh - 1) * t.dilation_h / stride_h;
  t.width = t.wo + (kw - 1) * t.dilation_w / stride_w;
  t.used_h = used(kh, stride_h, dilation_h);
  t.used_w = used(kw, stride_w, dilation_w);
  t.slots_w = slot(t.used_w, stride_w);
  t.plane = slot(t.used_h, stride_h) * t.slots_w * t.rows * t.width;
  if (!CHANNELS_LAST) t.plane = ((t.plane + 15) / 16 | 1) * 16;  // not the same sets of the cache for all channels
  image += entry * t.h * t.w * t.c;
  out += entry * t.ho * t.wo * t.f;
  if (RESIDUAL) residual += entry * t.ho * t.wo * t.f;
#if DEPTHWISE && CHANNELS_LAST
  depthwise(&t, image, weights, bias, residual, out, first, least(t.c, first + tile_groups), buffer);
#else
  float sums[MR * NR] __attribute__((aligned(64)));
  int32_t offsets[MOST_STEPS];
  const ptrdiff_t filter = (ptrdiff_t)tile_f * tile_filters, end = least(t.filters, filter + tile_filters);
  const ptrdiff_t panels = PACKED && CHANNELS_LAST ? (t.filters + NR - 1) / NR * NR : t.filters;
  fill_offsets(&t, offsets);
  for (ptrdiff_t g = first; g < least(groups, first + tile_groups); ++g) {
    const ptrdiff_t at = g * t.filters * (CHANNELS_LAST ? 1 : t.ho * t.wo);
    const Results results = {out + at, residual + at, bias + g * t.filters, 0, 0};
    group(&t, image + g * t.channels * (CHANNELS_LAST ? 1 : t.h * t.w), weights + g * panels * t.kh * t.kw * t.channels,
          results, filter, end, buffer, offsets, sums);
  }
#endif
}
