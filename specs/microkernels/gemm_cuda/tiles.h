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

__device__ __forceinline__ void send(u32 to, u64 map, int column, int row, u32 barrier, bool to_all) {
  if (to_all)
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, "
        "%3}], [%4], %5;" ::"r"(to),
        "l"(map), "r"(column), "r"(row), "r"(barrier), "h"((u16)((1 << SHARED_BY) - 1))
        : "memory");
  else
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
            to),
        "l"(map), "r"(column), "r"(row), "r"(barrier)
        : "memory");
}

#define SET(field, bits, ...) asm volatile("tensormap.replace.tile." field ".shared::cta.b1024." bits __VA_ARGS__ : "memory")

// What a whole warp does: makes the descriptor of a matrix, in boxes of 64 columns, in shared memory and has it at `to`.
__device__ __forceinline__ void describe(u32 at, u64 to, const void* matrix, u32 rows, u32 columns, u32 box, int lane) {
  asm volatile("st.shared.b32 [%0], 0;" ::"r"(at + lane * 4) : "memory");
  __syncwarp();
  if (lane == 0) {
    SET("global_address", "b64", " [%0], %1;" ::"r"(at), "l"((u64)matrix));
    SET("rank", "b32", " [%0], 1;" ::"r"(at));
    SET("box_dim", "b32", " [%0], 0, 64;" ::"r"(at));
    SET("box_dim", "b32", " [%0], 1, %1;" ::"r"(at), "r"(box));
    SET("global_dim", "b32", " [%0], 0, %1;" ::"r"(at), "r"(columns));
    SET("global_dim", "b32", " [%0], 1, %1;" ::"r"(at), "r"(rows));
    SET("global_stride", "b64", " [%0], 0, %1;" ::"r"(at), "l"((u64)columns * 2));
    SET("element_stride", "b32", " [%0], 0, 1;" ::"r"(at));
    SET("element_stride", "b32", " [%0], 1, 1;" ::"r"(at));
    SET("elemtype", "b32", " [%0], %1;" ::"r"(at), "n"(LHS_BF16 ? 10 : 6));
    SET("interleave_layout", "b32", " [%0], 0;" ::"r"(at));
    SET("swizzle_mode", "b32", " [%0], 3;" ::"r"(at));
    SET("fill_mode", "b32", " [%0], 0;" ::"r"(at));
  }
  __syncwarp();
  asm volatile(
      "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;" ::"l"(to),
      "r"(at)
      : "memory");
}

// A tile in shared memory as the matrix units read it: rows of 64 along the depth, or (ACROSS) 64 of the depth by 64.
template <int ACROSS>
__device__ __forceinline__ u64 tile_at(u32 at) {
  return (u64)((at & 0x3ffff) >> 4) | (u64)(ACROSS ? 8192 >> 4 : 1) << 16 | (u64)(1024 >> 4) << 32 | 1ull << 62;
}
