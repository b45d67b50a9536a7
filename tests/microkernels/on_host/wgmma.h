// Products of tiles in shared memory, as their descriptors tell them: each thread computes the sums that the chip gives it.
constexpr int DEPTH = LHS_F8E4M3FN ? 32 : 16;

static float value_of(u32 word) {
#if LHS_F8E4M3FN
  const int exponent = word >> 3 & 15, fraction = word & 7;
  const float size = std::ldexp(exponent ? 8 + fraction : fraction, (exponent ? exponent : 1) - 10);
  return word & 128 ? -size : size;
#else
  return LHS_BF16 ? bits(word << 16) : half_of(word);
#endif
}

static float number(u64 tile, bool across, int row, int depth) {
  typedef std::conditional_t<LHS_F8E4M3FN, unsigned char, u16> Element;
  static const std::vector<float> values = [] {
    std::vector<float> all(1 << 8 * sizeof(Element));
    for (size_t i = 0; i < all.size(); i++) all[i] = value_of(i);
    return all;
  }();
  const u32 first = (tile & 0x3fff) << 4, leading = (tile >> 16 & 0x3fff) << 4, stride = (tile >> 32 & 0x3fff) << 4;
  if (tile >> 62 != 1) fail("a tile that is not swizzled by 128 bytes");
  const u32 at = across ? first + row / 64 * leading + depth / 8 * stride + depth % 8 * 128 + row % 64 * 2
                        : first + row / 8 * stride + row % 8 * 128 + depth * sizeof(Element);
  return values[read<Element>(*now->workgroup, swizzled(at))];
}

// All of a tile, row by row, as it is now: its threads ask for the same.
static const float* numbers(u64 tile, bool across, int rows) {
  Decoded& known = now->workgroup->tiles[tile];
  if (known.written != now->workgroup->written) {
    known = {now->workgroup->written, std::vector<float>(rows * DEPTH)};
    for (int i = 0; i < rows * DEPTH; i++) known.numbers[i] = number(tile, across, i / DEPTH, i % DEPTH);
  }
  return known.numbers.data();
}

template <int COLUMNS>
struct Product {
  static void add(float (&d)[COLUMNS / 2], u64 x, u64 y, int more) {
    if (late_copies)
      multiply(d, x, y, more);
    else
      now->products.back().push_back([&d, x, y, more] { multiply(d, x, y, more); });
  }

  static void multiply(float (&d)[COLUMNS / 2], u64 x, u64 y, int more) {
    const int t = now->number % 128, line = t / 32 * 16 + t % 32 / 4;
    const float *rows = numbers(x, X_ACROSS, 64), *columns = numbers(y, Y_ACROSS, COLUMNS);
    for (int j = 0; j < COLUMNS / 2; j++) {
      const float* row = rows + (line + j / 2 % 2 * 8) * DEPTH;
      const float* column = columns + (j / 4 * 8 + t % 4 * 2 + j % 2) * DEPTH;
      float added = 0.0f;
      for (int i = 0; i < DEPTH; i++) added += row[i] * column[i];
      d[j] = more ? d[j] + added : added;
    }
  }
};
