// Barriers of steps, and tiles that come by descriptors.
__device__ __forceinline__ u32 shared_of(const void* p) { return (u32)__cvta_generic_to_shared(p); }

__device__ __forceinline__ void init(u32 barrier, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count));
}

__device__ __forceinline__ void expect(u32 barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ __forceinline__ void wait(u32 barrier, u32 parity) {
  asm volatile(
      "{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra AGAIN; }" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// In the workgroup of this rank. Nothing but the end of reads is told by it: a fence would take longer than a step.
__device__ __forceinline__ void arrive(u32 barrier, u32 rank) {
  if (SHARED_BY > 1)
    asm volatile(
        "{ .reg .b32 r; mapa.shared::cluster.u32 r, %0, %1; mbarrier.arrive.shared::cluster.b64 _, [r]; }" ::"r"(barrier),
        "r"(rank)
        : "memory");
  else
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Where a matrix lies, as coordinates of its descriptor: in units of 16 bytes, and of 4 GiB.
struct Base {
  int low, high;
  __device__ __forceinline__ Base(const void* matrix) : low((u32)(u64)matrix >> 4), high((u64)matrix >> 32) {}
};

__device__ __forceinline__ void send(u32 to, u64 map, Base base, int column, int row, u32 barrier, bool to_all) {
  if (to_all)
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, "
        "%3, %4, %5}], [%6], %7;" ::"r"(to),
        "l"(map), "r"(column), "r"(row), "r"(base.low), "r"(base.high), "r"(barrier), "h"((u16)((1 << SHARED_BY) - 1))
        : "memory");
  else
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(
            to),
        "l"(map), "r"(column), "r"(row), "r"(base.low), "r"(base.high), "r"(barrier)
        : "memory");
}

// The descriptor of a matrix, in boxes of 64 columns: the words that `tensormap.replace` for sm_90a sets. It is a constant, and
// so names no address: its third dimension has a stride of 16 bytes, its fourth of 4 GiB, and a copy gives the address there.
struct alignas(128) Map {
  u32 words[32];
};

__device__ constexpr Map describe(u32 rows, u32 columns, u32 box) {
  Map map = {};
  map.words[2] = 3 << 4 | (LHS_BF16 ? 10 : 6) << 7 | 3 << 13;  // four dimensions, the type, the swizzle of 128 bytes
  map.words[3] = columns >> 3, map.words[4] = 1, map.words[5] = 1 << 28;                            // strides, of 16 bytes
  map.words[8] = columns - 1, map.words[9] = rows - 1, map.words[10] = (1 << 28) - 1, map.words[11] = (1 << 24) - 1;  // sizes
  map.words[13] = 63u << 24, map.words[14] = box - 1;  // of a box
  return map;
}

// A tile in shared memory as the matrix units read it: rows of 64 along the depth, or (ACROSS) 64 of the depth by 64.
template <int ACROSS>
__device__ __forceinline__ u64 tile_at(u32 at) {
  return (u64)((at & 0x3ffff) >> 4) | (u64)(ACROSS ? 8192 >> 4 : 1) << 16 | (u64)(1024 >> 4) << 32 | 1ull << 62;
}
