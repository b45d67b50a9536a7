// What becomes of sums: their epilogue, and their way into the result.
__device__ __forceinline__ float finished(float x) {
#if CLIP_LOW
  x = at_least(x, bits(LOW_BITS));
#endif
#if CLIP_HIGH
  x = at_most(x, bits(HIGH_BITS));
#endif
#if ACTIVATION == 1
  // Half of erfc is a power of two whose exponent is a polynomial, good to 2e-7.
  const float size = fabsf(x);
  float tail = (-1e-6f * size + 2.809349249e-05f) * size - 0.00068854891668f;
  tail = ((tail * size + 0.0078020218107f) * size - 0.053002368086f) * size - 0.45904730179f;
  tail = (tail * size - 1.1511236555f) * size - 0.99999966318f;
  tail = power_of_two(tail);
  return x * (x >= 0.0f ? 1.0f - tail : tail);
#elif ACTIVATION == 2
  return x / (1.0f + __expf(-2.0f * bits(FACTOR_BITS) * (x + 0.044715f * x * x * x)));
#elif ACTIVATION == 3
  return x / (1.0f + __expf(-x));
#elif ACTIVATION == 4 || ACTIVATION == 6
  const float part = at_most(at_least(x + 3.0f, 0.0f), 6.0f);
  return (ACTIVATION == 4 ? x : 1.0f) * part * (1.0f / 6.0f);
#elif ACTIVATION == 5
  return 1.0f / (1.0f + __expf(-x));
#else
  return x;
#endif
}

__device__ __forceinline__ float widened(u16 from, bool bf16) {
  return bf16 ? bits((u32)from << 16) : half_of(from);
}

// EACH numbers that lie one behind another, as they are in memory.
template <bool F32, bool BF16>
struct Numbers {
  enum : int { WORDS = EACH * (F32 ? 4 : 2) / 4 };
  u32 words[WORDS];

  __device__ __forceinline__ void load(const void* from, u64 at) {
    const u64 there = (u64)from + at * (F32 ? 4 : 2);
#pragma unroll
    for (int i = 0; i < WORDS; i += WORDS > 2 ? 4 : 2)
      if (WORDS > 2)
        load_global(words[i], words[i + 1], words[(i + 2) % WORDS], words[(i + 3) % WORDS], there + i * 4);
      else
        load_global(words[i], words[i + 1], there + i * 4);
  }

  __device__ __forceinline__ void add_to(float (&sums)[EACH]) const {
#pragma unroll
    for (int i = 0; i < EACH; i++)
      sums[i] += F32 ? bits(words[i % WORDS]) : widened((u16)(words[i / 2 % WORDS] >> i % 2 * 16), BF16);
  }
};

struct Result {
  void* c;
  const void *bias, *residual;
  int m, n, entry;
};

// EACH numbers of a row, of which `left` columns are left. Rows of odd lengths begin anywhere: their numbers are put one by one.
__device__ __forceinline__ void put_at(const Result& to, u64 where, const u32* words, int left) {
  const u64 there = (u64)to.c + where * OUT_BYTES;
  if ((GATED ? n / 2 : n) % EACH == 0) {
    store_global(there, words);
    return;
  }
#pragma unroll
  for (int i = 0; i < EACH; i++)
    if (i < left) {
      if (WIDE)
        *(u32*)(there + i * 4) = words[i % 4];
      else
        *(u16*)(there + i * 2) = (u16)(words[i / 2] >> i % 2 * 16);
    }
}

// --- From registers -------------------------------------------------------------------------------------------------

// A lane gives one of two words to the lane beside it (1) or next but one (2), and gets one.
__device__ __forceinline__ void swap(u32& first, u32& second, int lanes, bool upper) {
  const u32 got = of_lane_beside(upper ? first : second, lanes);
  (upper ? first : second) = got;
}

// Of four words of each of four lanes a lane gets those of its own number: lane 0 the first of all.
__device__ __forceinline__ void deal(u32 (&words)[4], int lane) {
  swap(words[0], words[1], 1, lane & 1);
  swap(words[2], words[3], 1, lane & 1);
  swap(words[0], words[2], 2, lane & 2);
  swap(words[1], words[3], 2, lane & 2);
}

enum : int { PIECES = BN / (GATED ? 16 : 8), DEALT = WIDE ? 2 : 4 };  // pieces of eight columns, and of these at once
enum : int { SHIFTS = BN * (BIAS_F32 ? 4 : 2) };  // bytes of the bias

// The bias of a tile's columns, on its way into shared memory.
__device__ __forceinline__ void bring_bias(u32 to, const void* bias, int column, int n, int t) {
  const int first = GATED ? column / 2 : column, last = GATED ? n / 2 : n, at = first * (BIAS_F32 ? 4 : 2) + t * 16;
  if (t * 16 < SHIFTS / (GATED ? 2 : 1) && at < last * (BIAS_F32 ? 4 : 2))
    bring(to + t * 16, (u64)bias + at);
}

// Two columns of a piece, with all that is done with them.
__device__ __forceinline__ void finish_two(const float (&sums)[BN / 2], int piece, int half, u32 bias, float (&two)[2]) {
#pragma unroll
  for (int i = 0; i < 2; i++) two[i] = sums[(GATED ? piece * 2 : piece) * 4 + half * 2 + i];
#if BIAS
  const u32 at = bias + piece * 8 * (BIAS_F32 ? 4 : 2);
  if (BIAS_F32) {
    u32 low, high;
    load_words(low, high, at);
    two[0] += bits(low), two[1] += bits(high);
  } else {
    const u32 both = load_word(at);
    two[0] += widened((u16)both, BIAS_BF16), two[1] += widened((u16)(both >> 16), BIAS_BF16);
  }
#endif
#pragma unroll
  for (int i = 0; i < 2; i++) {
    two[i] = finished(two[i]);
    if (GATED) two[i] *= sums[(piece * 2 + 1) * 4 + half * 2 + i];
  }
}

// 64 rows of a tile. A lane has two columns of each piece; it gives some away for four or eight that lie side by side, so that
// four lanes put 64 bytes of a row.
__device__ __forceinline__ void put_directly(const Result& to, const float (&sums)[BN / 2], int first_row, int first, u32 bias, int t) {
  const int lane = t % 4, line = t / 32 * 16 + t % 32 / 4, n = GATED ? to.n / 2 : to.n;
  const int own = WIDE ? lane & 1 : lane;  // the piece of a round that becomes its own,
  const int column = (GATED ? first / 2 : first) + own * 8 + (WIDE ? (lane >> 1) * 4 : 0);
  bias += lane * 2 * (BIAS_F32 ? 4 : 2);
#pragma unroll
  for (int half = 0; half < 2; half++) {
    const int row = first_row + line + half * 8;
    const u64 begin = ((u64)to.entry * to.m + row) * n + column;
#pragma unroll
    for (int round = 0; round < PIECES; round += DEALT) {
      float two[DEALT][2] = {};
      u32 words[4];
#pragma unroll
      for (int i = 0; i < DEALT; i++)
        if (round + i < PIECES) finish_two(sums, round + i, half, bias, two[i]);
#pragma unroll
      for (int i = 0; i < 4; i++)
        words[i] = WIDE ? __float_as_uint(two[i / 2 % DEALT][i % 2]) : pair(two[i % DEALT][0], two[i % DEALT][1]);
      if (WIDE) {
        swap(words[0], words[2], 1, lane & 1);
        swap(words[1], words[3], 1, lane & 1);
      } else
        deal(words, lane);
      if (row < to.m && round + own < PIECES && column + round * 8 < n)
        put_at(to, begin + round * 8, words, n - column - round * 8);
    }
  }
}

// --- By way of shared memory ----------------------------------------------------------------------------------------

// Eight columns of this thread's rows.
__device__ __forceinline__ void stage(u32 to, const float* sums, int column, int t) {
#pragma unroll
  for (int half = 0; half < 2; half++)
    store2(to + (t / 32 * 16 + half * 8 + t % 32 / 4) * PITCH + (column + t % 4 * 2) * 4, sums[half * 2], sums[half * 2 + 1]);
}

// Whose share of a tile it is, and beside whom it reads.
struct Share {
  int number, beside;
};

__device__ __forceinline__ void add4(float* to, u32 from) {
  float more[4];
  load4_from(more, from);
#pragma unroll
  for (int i = 0; i < 4; i++) to[i] += more[i];
}

// EACH sums that lie one behind another, and those that they are gated by, of all workgroups that share them.
__device__ __forceinline__ void add_up(float (&sums)[EACH], float (&others)[EACH], u32 at, Share share) {
#pragma unroll
  for (int j = 0; j < EACH; j += 4) {
    load4(sums + j, at + j * 4);
    if (GATED) load4(others + j, at + 32 + j * 4);
  }
#pragma unroll
  for (int other = 1; other < SPLIT; other++) {
    const u32 there = in_workgroup(at, (share.number + other) % SPLIT * SHARED_BY + share.beside);
#pragma unroll
    for (int j = 0; j < EACH; j += 4) {
      add4(sums + j, there + j * 4);
      if (GATED) add4(others + j, there + 32 + j * 4);
    }
  }
}

typedef Numbers<BIAS_F32, BIAS_BF16> Shifts;
typedef Numbers<RESIDUAL_F32, RESIDUAL_BF16> Residuals;

// EACH columns of a row, with all that is done with them; gated by others.
__device__ __forceinline__ void put_finished(const Result& to, u64 where, int left, float (&sums)[EACH],
                                             const float (&others)[EACH], const Shifts& shifts, const Residuals& more) {
  if (BIAS) shifts.add_to(sums);
  if (RESIDUAL) more.add_to(sums);
#pragma unroll
  for (int j = 0; j < EACH; j++) sums[j] = finished(sums[j]) * (GATED ? others[j] : 1.0f);
  u32 words[4];
#pragma unroll
  for (int j = 0; j < 4; j++)
    words[j] = WIDE ? __float_as_uint(sums[j]) : pair(sums[2 * j % EACH], sums[(2 * j + 1) % EACH]);
  put_at(to, where, words, left);
}

// So many columns of 64 rows, of SPLIT the share of one, with their epilogue: a short loop, as many instructions at the end of a
// kernel take longer to be fetched than to be run. What is read for it is read for some pieces at once.
template <int COLUMNS>
__device__ __forceinline__ void put_staged(const Result& to, u32 from, int row, int column, int t, Share share) {
  constexpr int PUT = COLUMNS / (GATED ? 2 : 1), ACROSS = PUT / EACH, ROWS = (64 + SPLIT - 1) / SPLIT, AT_ONCE = 4;
  const int n = GATED ? to.n / 2 : to.n, first = GATED ? column / 2 : column;
#pragma unroll 1
  for (int begin = t; begin < ROWS * ACROSS; begin += 128 * AT_ONCE) {
    Shifts shifts[AT_ONCE];
    Residuals more[AT_ONCE];
    u64 where[AT_ONCE];
    bool inside[AT_ONCE];
#pragma unroll
    for (int u = 0; u < AT_ONCE; u++) {
      const int i = begin + u * 128, line = share.number * ROWS + i / ACROSS, place = first + i % ACROSS * EACH;
      where[u] = ((u64)to.entry * to.m + row + line) * n + place;
      inside[u] = i < ROWS * ACROSS && line < 64 && row + line < to.m && place < n;
      if (BIAS && inside[u]) shifts[u].load(to.bias, place);
      if (RESIDUAL && inside[u]) more[u].load(to.residual, where[u]);
    }
#pragma unroll
    for (int u = 0; u < AT_ONCE; u++) {
      if (!inside[u]) continue;
      const int i = begin + u * 128, line = share.number * ROWS + i / ACROSS, x = i % ACROSS * EACH;
      const u32 at = from + line * PITCH + (GATED ? x / 8 * 16 + x % 8 : x) * 4;
      float sums[EACH], others[EACH];
      add_up(sums, others, at, share);
      put_finished(to, where[u], n - first - i % ACROSS * EACH, sums, others, shifts[u], more[u]);
    }
  }
}

// --- Turned ---------------------------------------------------------------------------------------------------------

enum : int { LINE = (BM + 4) * 4 };  // bytes from one row of the result to the next

// 64 rows of a tile, as columns.
__device__ __forceinline__ void stage_turned(u32 to, const float (&sums)[BN / 2], int part, int t) {
#pragma unroll
  for (int j = 0; j < BN / 2; j++)
    store1(to + (j / 4 * 8 + t % 4 * 2 + j % 2) * LINE + (part + t / 32 * 16 + j / 2 % 2 * 8 + t % 32 / 4) * 4, sums[j]);
}

// All of a tile, of SPLIT the share of one.
__device__ __forceinline__ void put_turned(const Result& to, u32 from, int row, int column, int t, Share share) {
  constexpr int PUT = BM / (GATED ? 2 : 1), ACROSS = PUT / EACH, NEXT = SPLIT * GROUPS * 128;
  constexpr int ROUNDS = (BN * ACROSS + NEXT - 1) / NEXT;
  constexpr int AT_ONCE = SPLIT > 2 ? 1 : ROUNDS < 4 ? ROUNDS : 4;  // many others' sums at once get in each other's way
  const int n = GATED ? to.n / 2 : to.n, first = GATED ? row / 2 : row;
#pragma unroll 1
  for (int begin = share.number * GROUPS * 128 + t; begin < BN * ACROSS; begin += NEXT * AT_ONCE) {
    Shifts shifts[AT_ONCE];
    Residuals more[AT_ONCE];
    u64 where[AT_ONCE];
    bool inside[AT_ONCE];
    float sums[AT_ONCE][EACH], others[AT_ONCE][EACH];
#pragma unroll
    for (int u = 0; u < AT_ONCE; u++) {
      const int i = begin + u * NEXT, line = column + i / ACROSS, place = first + i % ACROSS * EACH;
      where[u] = ((u64)to.entry * to.m + line) * n + place;
      inside[u] = i < BN * ACROSS && line < to.m && place < n;
      if (BIAS && inside[u]) shifts[u].load(to.bias, place);
      if (RESIDUAL && inside[u]) more[u].load(to.residual, where[u]);
    }
#pragma unroll
    for (int u = 0; u < AT_ONCE; u++) {
      const int i = inside[u] ? begin + u * NEXT : 0, x = i % ACROSS * EACH;
      add_up(sums[u], others[u], from + i / ACROSS * LINE + (GATED ? x / 8 * 16 + x % 8 : x) * 4, share);
    }
#pragma unroll
    for (int u = 0; u < AT_ONCE; u++)
      if (inside[u]) {
        const int place = first + (begin + u * NEXT) % ACROSS * EACH;
        put_finished(to, where[u], n - place, sums[u], others[u], shifts[u], more[u]);
      }
  }
}
