// All that the kernel says to the chip in its own words (PTX). Places in shared memory are its addresses, of 32 bits.
__device__ __forceinline__ u32 shared_of(const void* p) { return (u32)__cvta_generic_to_shared(p); }

// --- Barriers -------------------------------------------------------------------------------------------------------

__device__ __forceinline__ void init(u32 barrier, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count));
}

// All see what was initialised.
__device__ __forceinline__ void fence_inits() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

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

// So many threads of the workgroup, which come to this barrier, or only say that they have been there.
__device__ __forceinline__ void together(int which, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(which), "r"(threads) : "memory");
}

__device__ __forceinline__ void been_there(int which, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(which), "r"(threads) : "memory");
}

__device__ __forceinline__ void whole_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

__device__ __forceinline__ void cluster_begun() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// --- Workgroups and their registers ---------------------------------------------------------------------------------

__device__ __forceinline__ int rank_in_cluster() {
  int rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// The place of the same name in the workgroup of this rank.
__device__ __forceinline__ u32 in_workgroup(u32 at, int rank) {
  u32 there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(rank));
  return there;
}

template <int REGISTERS>
__device__ __forceinline__ void fewer_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

template <int REGISTERS>
__device__ __forceinline__ void more_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

// --- Tiles ----------------------------------------------------------------------------------------------------------

__device__ __forceinline__ void prefetch(const void* map) { asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory"); }

// Where a matrix lies, as coordinates of its descriptor: in units of 16 bytes, and of 4 GiB.
struct Base {
  int low, high;
  __device__ __forceinline__ Base(const void* matrix) : low((u32)(u64)matrix >> 4), high((u64)matrix >> 32) {}
};

// To these of the cluster, or to this workgroup alone.
__device__ __forceinline__ void send(u32 to, u64 map, Base base, int column, int row, u32 barrier, bool shared, u32 whom) {
  if (shared)
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, "
        "%3, %4, %5}], [%6], %7;" ::"r"(to),
        "l"(map), "r"(column), "r"(row), "r"(base.low), "r"(base.high), "r"(barrier), "h"((u16)whom)
        : "memory");
  else
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(
            to),
        "l"(map), "r"(column), "r"(row), "r"(base.low), "r"(base.high), "r"(barrier)
        : "memory");
}

// Before the first product of a step; behind its last: all but the last step's products are done, or all.
__device__ __forceinline__ void before_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ __forceinline__ void after_products() {
  asm volatile("wgmma.commit_group.sync.aligned;\n\twgmma.wait_group.sync.aligned 1;" ::: "memory");
}

__device__ __forceinline__ void all_products() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }

// --- Shared memory --------------------------------------------------------------------------------------------------

__device__ __forceinline__ void load_words(u32& low, u32& high, u32 from) {
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(low), "=r"(high) : "r"(from));
}

__device__ __forceinline__ u32 load_word(u32 from) {
  u32 word;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(from));
  return word;
}

__device__ __forceinline__ void load4(float* to, u32 from) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
               : "r"(from));
}

// Of any workgroup of the cluster.
__device__ __forceinline__ void load4_from(float* to, u32 from) {
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
               : "r"(from));
}

__device__ __forceinline__ void store1(u32 to, float x) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(to), "f"(x) : "memory");
}

__device__ __forceinline__ void store2(u32 to, float x, float y) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(x), "f"(y) : "memory");
}

// 16 bytes on their way into shared memory, and the end of all that this thread has sent there.
__device__ __forceinline__ void bring(u32 to, u64 from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

__device__ __forceinline__ void all_brought() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// --- Memory ---------------------------------------------------------------------------------------------------------

__device__ __forceinline__ void load_global(u32& first, u32& second, u32& third, u32& fourth, u64 from) {
  asm("ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(first), "=r"(second), "=r"(third), "=r"(fourth) : "l"(from));
}

__device__ __forceinline__ void load_global(u32& first, u32& second, u64 from) {
  asm("ld.global.nc.v2.b32 {%0, %1}, [%2];" : "=r"(first), "=r"(second) : "l"(from));
}

__device__ __forceinline__ void store_global(u64 to, const u32* words) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3]));
}

// --- Numbers --------------------------------------------------------------------------------------------------------

__device__ __forceinline__ float bits(u32 from) { return __uint_as_float(from); }

__device__ __forceinline__ float half_of(u16 from) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(from));
  return x;
}

__device__ __forceinline__ u32 pair(float low, float high) {
  u32 both;
#if OUT_BF16
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
#else
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
#endif
  return both;
}

// What is no number stays none.
__device__ __forceinline__ float at_least(float x, float least) {
  asm("max.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(least));
  return x;
}

__device__ __forceinline__ float at_most(float x, float most) {
  asm("min.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(most));
  return x;
}

__device__ __forceinline__ float power_of_two(float x) {
  asm("ex2.approx.f32 %0, %0;" : "+f"(x));
  return x;
}

// What the lane so many beside this one has.
__device__ __forceinline__ u32 of_lane_beside(u32 word, int lanes) {
  u32 got;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;" : "=r"(got) : "r"(word), "r"(lanes));
  return got;
}
