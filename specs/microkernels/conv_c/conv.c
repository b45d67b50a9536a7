// A convolution in f32 as an implicit matrix product: the image is never unrolled in memory. One source for AVX-512, AVX2,
// NEON and whatever else has GCC's vector extensions.
//
// One call computes the tile of one workgroup: `tile_rows` rows of the result, `tile_filters` filters of `tile_groups`
// groups of one image. What the tile reads of some channels is copied into a buffer on the stack, with zeros for the
// padding and split by the strides: what was `stride` apart is side by side, so that neighbours in the result have
// neighbours in the buffer, whatever the tap of the filter. Where a tap begins stands in a table. A block of registers
// then goes over channels and taps: first.h and last.h say how, for channels first and last, turned.h for short rows and
// long vectors, depthwise.h for filters of a single channel.
//
// PACKED weights come in panels of what a block takes, MR or NR filters; others lie right as they are. Nothing is shared
// between calls, nothing is allocated and no library is called.

#define ONE_BIAS !CHANNELS_LAST  // for what is side by side
#include "blocks.h"

#define SLACK 256  // a block at the end of the buffer reads beyond what counts

#if CHANNELS_LAST
#define PITCH (CC + (CC % 64 ? 0 : 16))  // of pixels: not the same sets of the cache for all
#else
#define PITCH 1
#endif

typedef struct {
  ptrdiff_t h, w, c, kh, kw, f, stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w, ho, wo;
  ptrdiff_t channels, filters;  // of a group
  ptrdiff_t rows, width, slots_h, slots_w, plane;  // of the buffer: one phase of the strides; all of a channel
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

// Which columns of the buffer's rows, of a phase that begins at column `first`, are in the image: others are zeros.
typedef struct {
  ptrdiff_t first, left, end;
} Columns;

INLINE Columns columns_of(const Tile* t, ptrdiff_t first) {
  const ptrdiff_t step = t->stride_w, left = least(t->width, first < 0 ? (-first + step - 1) / step : 0);
  return (Columns){first, left, most(left, least(t->width, (t->w - first + step - 1) / step))};
}

#if CHANNELS_LAST || !DEPTHWISE
// A row of one channel, or of `count` channels side by side; none is all zeros.
INLINE void copy_row(const Tile* t, const float* row, Columns columns, ptrdiff_t count, float* to) {
  const ptrdiff_t step = t->stride_w, left = row ? columns.left : t->width, end = row ? columns.end : t->width;
#if CHANNELS_LAST
  for (ptrdiff_t x = 0; x < left; ++x) zeros(to + x * PITCH, count);
  for (ptrdiff_t x = left; x < end; ++x) gather(row + (columns.first + x * step) * t->c, 1, count, to + x * PITCH);
  for (ptrdiff_t x = end; x < t->width; ++x) zeros(to + x * PITCH, count);
#else
  (void)count;
  zeros(to, left);
  gather(row + columns.first + left * step, step, end - left, to + left);
  zeros(to + end, t->width - end);
#endif
}

#if defined(__AVX512F__) && !CHANNELS_LAST
// One phase of `count` channels, a vector of every row at a time: what is beside the image is not read, and is the padding's zeros.
INLINE void fill_phase(const Tile* t, const float* restrict image, ptrdiff_t count, ptrdiff_t top, Columns columns,
                       const int step, float* restrict to) {
  for (ptrdiff_t x = 0; x < t->width; x += LANES) {
    const ptrdiff_t left = least(LANES, most(0, columns.left - x)), end = most(left, least(LANES, columns.end - x));
    const uint16_t inside = lanes_before(end) & ~lanes_before(left), all = lanes_before(least(LANES, t->width - x));
    // With a step of two, of the first and of the second vector of the image.
    uint32_t evens = 0;
    for (ptrdiff_t i = left; i < end; ++i) evens |= 1u << 2 * i;
    for (ptrdiff_t c = 0; c < count; ++c) {
      const float* from = image + c * t->h * t->w + top * t->w + columns.first + x * step;
      float* row = to + c * t->plane + x;
      for (ptrdiff_t y = top; y < top + t->rows * t->stride_h; y += t->stride_h, from += t->stride_h * t->w, row += t->width) {
        vec pixels = {0};
        if (y >= 0 && y < t->h) {
          pixels = read_lanes(from, step == 1 ? inside : (uint16_t)evens);
          if (step == 2) pixels = SHUFFLE(pixels, read_lanes(from + LANES, (uint16_t)(evens >> LANES)), EVENS);
        }
        write_lanes(row, pixels, all);
      }
    }
  }
}
#endif

// What the tile reads of channels: `count` from `image` on.
static __attribute__((noinline)) void fill(const Tile* t, const float* restrict image, ptrdiff_t count, float* restrict to) {
  const ptrdiff_t planes = CHANNELS_LAST ? 1 : count, pixel = CHANNELS_LAST ? t->c : 1;
  for (ptrdiff_t a = 0; a < t->stride_h; ++a) {
    for (ptrdiff_t b = 0; b < t->stride_w; ++b) {
      if (!(t->used_h >> a & t->used_w >> b & 1)) continue;
      const Columns columns = columns_of(t, b - t->pad_w);
      const ptrdiff_t top = t->row * t->stride_h + a - t->pad_h;  // of the image, in the first row
      float* phase = to;
      to += t->rows * t->width * PITCH;
#if defined(__AVX512F__) && !CHANNELS_LAST
      if (t->stride_w == 1) {
        fill_phase(t, image, count, top, columns, 1, phase);
        continue;
      }
      if (t->stride_w == 2) {
        fill_phase(t, image, count, top, columns, 2, phase);
        continue;
      }
#endif
      for (ptrdiff_t c = 0; c < planes; ++c) {
        const float* plane = image + c * t->h * t->w;
        float* row = phase + c * t->plane;
        ptrdiff_t y = top;
        for (ptrdiff_t r = 0; r < t->rows; ++r, y += t->stride_h, row += t->width * PITCH)
          copy_row(t, y >= 0 && y < t->h ? plane + y * t->w * pixel : 0, columns, count, row);
      }
    }
  }
}

#endif

#if !CHANNELS_LAST && !DEPTHWISE
INLINE ptrdiff_t channels_at_once(const Tile* t) {
  const ptrdiff_t fit = most(1, least(least(t->channels, PLAIN ? t->channels : BUFFER / t->plane), STEPS / (t->kh * t->kw)));
  const ptrdiff_t times = (t->channels + fit - 1) / fit;
  return (t->channels + times - 1) / times;
}

// Blocks read beyond the end of what counts: what happens to lie there may be numbers so small that they cost time.
INLINE void clear_ends(const Tile* t, ptrdiff_t planes, float* buffer) {
  const ptrdiff_t counts = t->slots_h * t->slots_w * t->rows * t->width;
  for (ptrdiff_t c = 0; c < planes; ++c) zeros(buffer + c * t->plane + counts, t->plane - counts);
  zeros(buffer + planes * t->plane, SLACK);
}
#endif

// All that a block's results need to find their places; `out` and `residual` are those of the group in the image.
typedef struct {
  float* out;
  const float* residual;
  const float* bias;
  int add, last;
} Results;

#if DEPTHWISE
#include "depthwise.h"
#elif CHANNELS_LAST
#include "last.h"
#elif TURNED
#include "turned.h"
#else
#include "first.h"
#endif

#if !DEPTHWISE
// Where each step begins in the buffer: the taps of a channel, and channels first those of all channels.
INLINE void fill_offsets(const Tile* t, int32_t* offsets) {
  const ptrdiff_t taps = t->kh * t->kw, planes = CHANNELS_LAST ? 1 : channels_at_once(t);
  for (ptrdiff_t k = 0; k < taps; ++k) {
    const ptrdiff_t offset = tap_offset(t, k / t->kw, k % t->kw);
    for (ptrdiff_t c = 0; c < planes; ++c) offsets[c * taps + k] = c * t->plane + offset;
  }
}

static void group(const Tile* t, const float* image, const float* weights, Results results, ptrdiff_t filter,
                  ptrdiff_t filters_end, float* buffer, const int32_t* offsets) {
  const ptrdiff_t most_channels = channels_at_once(t);
  for (ptrdiff_t c = 0; c < t->channels; c += most_channels) {
    const ptrdiff_t count = least(most_channels, t->channels - c);
    const float* from = image + c * (CHANNELS_LAST ? 1 : t->h * t->w);
    results.add = c > 0;
    results.last = c + count == t->channels;
    if (!PLAIN) fill(t, from, count, buffer);
    channels(t, PLAIN ? from : buffer, offsets, weights, c, count, filter, filters_end, results);
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
  float buffer[PLAIN ? 1 : BUFFER + SLACK] __attribute__((aligned(64)));
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
  t.slots_h = slot(t.used_h, stride_h);
  t.slots_w = slot(t.used_w, stride_w);
  t.plane = t.slots_h * t.slots_w * t.rows * t.width;
  if (!CHANNELS_LAST) t.plane = ((t.plane + 15) / 16 | 1) * 16;  // not the same sets of the cache for all channels
  image += entry * t.h * t.w * t.c;
  out += entry * t.ho * t.wo * t.f;
  if (RESIDUAL) residual += entry * t.ho * t.wo * t.f;
#if DEPTHWISE
  depthwise(&t, image, weights, bias, residual, out, first, least(t.c, first + tile_groups), buffer);
#else
  int32_t offsets[STEPS];
  const ptrdiff_t filter = (ptrdiff_t)tile_f * tile_filters, end = least(t.filters, filter + tile_filters);
  const ptrdiff_t panels = PACKED && CHANNELS_LAST ? (t.filters + NR - 1) / NR * NR : t.filters;
  if (!PLAIN) fill_offsets(&t, offsets);
  if (!PLAIN && !CHANNELS_LAST) clear_ends(&t, channels_at_once(&t), buffer);
  for (ptrdiff_t g = first; g < least(groups, first + tile_groups); ++g) {
    const ptrdiff_t at = g * t.filters * (CHANNELS_LAST ? 1 : t.ho * t.wo);
    const Results results = {out + at, residual + at, bias + g * t.filters, 0, 0};
    group(&t, image + g * t.channels * (CHANNELS_LAST ? 1 : t.h * t.w), weights + g * panels * t.kh * t.kw * t.channels,
          results, filter, end, buffer, offsets);
  }
#endif
}
