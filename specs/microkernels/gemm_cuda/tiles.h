// Tiles as descriptors tell them.
// The descriptor of a matrix, in boxes of 64 columns: the words that `tensormap.replace` for sm_90a sets. It is a constant, and
// so names no address: its third dimension has a stride of 16 bytes, its fourth of 4 GiB, and a copy gives the address there.
struct alignas(128) Map {
  u32 words[32];
};

__device__ constexpr Map describe(u32 rows, u32 columns, u32 pitch, u32 box) {
  Map map = {};
  map.words[2] = 3 << 4 | (LHS_BF16 ? 10 : 6) << 7 | 3 << 13;  // four dimensions, the type, the swizzle of 128 bytes
  map.words[3] = pitch >> 3, map.words[4] = 1, map.words[5] = 1 << 28;                            // strides, of 16 bytes
  map.words[8] = columns - 1, map.words[9] = rows - 1, map.words[10] = (1 << 28) - 1, map.words[11] = (1 << 24) - 1;  // sizes
  map.words[13] = 63u << 24, map.words[14] = box - 1;  // of a box
  return map;
}

// A tile in shared memory as the matrix units read it: rows of 64 along the depth, or (ACROSS) 64 of the depth by 64.
template <int ACROSS>
__device__ __forceinline__ u64 tile_at(u32 at) {
  return (u64)((at & 0x3ffff) >> 4) | (u64)(ACROSS ? 8192 >> 4 : 1) << 16 | (u64)(1024 >> 4) << 32 | 1ull << 62;
}
