// The chip as gemm_cuda sees it, in plain C++: what the header of this name says in PTX. A thread is a fiber, which goes on
// when what it waits for has come; where no thread of a cluster can go on, the kernel hangs, and that is said. What the chip
// does beside its threads may be done at once or as late as can be: copies when nobody can go on without them, products when
// they are waited for.
#include <setjmp.h>
#include <ucontext.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

[[noreturn]] static void fail(const char* why) {
  std::fprintf(stderr, "%s\n", why);
  std::exit(3);
}

struct Barrier {
  int arrived = 0;
  u64 rounds = 0;
};

struct Phased {
  int count = 0, missing = 0;
  long bytes = 0;
  u32 phase = 0;

  void look() {
    if (missing || bytes) return;
    phase++, missing = count;
  }
};

struct Decoded {
  u64 written;
  std::vector<float> numbers;
};

struct Workgroup {
  int number = 0, rank = 0;
  std::vector<unsigned char> shared;
  u64 written = 1;  // how often something was
  std::map<u64, Decoded> tiles;
  std::map<u32, Phased> phased;
  Barrier named[16], warps[16], groups[4];
  u32 words[16][32] = {};
};

struct Cluster {
  std::vector<Workgroup> workgroups;
  Barrier barrier;
};

struct Thread {
  std::deque<std::vector<std::function<void()>>> products = {{}};  // of each step
  std::vector<std::function<void()>> brought;
  int number = 0;
  Workgroup* workgroup = nullptr;
  ucontext_t context = {};
  jmp_buf place;  // where it goes on, once it has begun
  bool begun = false;
  std::function<bool()> ready;  // it waits for this
  bool over = false;
};

static bool late_copies;  // else late products
static std::deque<std::function<void()>> copies;
static Cluster cluster;
static Thread* now;
static jmp_buf scheduler;
static u64 moved;  // how often some thread went on

struct Index {
  int x;
};
#define threadIdx (Index{now->number})
#define blockIdx (Index{now->workgroup->number})
static Index gridDim;

template <typename Ready>
static void until(Ready ready) {
  if (!ready()) {
    now->ready = ready;
    if (!_setjmp(now->place)) _longjmp(scheduler, 1);
  }
  moved++;
}

static void meet(Barrier& at, int threads, bool stay = true) {
  const u64 round = at.rounds;
  if (++at.arrived == threads)
    at.arrived = 0, at.rounds++, moved++;
  else if (stay)
    until([&] { return at.rounds != round; });
}

static Phased& phased(Workgroup& in, u32 barrier) {
  if (!in.phased.count(barrier)) fail("a barrier is used that nobody has initialised");
  return in.phased[barrier];
}

template <typename T>
static T read(const Workgroup& in, u32 from) {
  if (from % sizeof(T) || from + sizeof(T) > in.shared.size()) fail("shared memory is read beyond its end, or unaligned");
  T value;
  std::memcpy(&value, &in.shared[from], sizeof(T));
  return value;
}

template <typename T>
static void write(Workgroup& in, u32 to, T value) {
  if (to % sizeof(T) || to + sizeof(T) > in.shared.size()) fail("shared memory is written beyond its end, or unaligned");
  std::memcpy(&in.shared[to], &value, sizeof(T));
  in.written++;
}

// Tiles lie in shared memory with pieces of 16 bytes exchanged, by the line of 128 bytes that they are in.
static u32 swizzled(u32 at) { return at ^ (at >> 7 & 7) << 4; }

static float half_of(u16 from) {
  const int exponent = from >> 10 & 31, fraction = from & 1023;
  const float size = exponent == 31 ? (fraction ? NAN : INFINITY)
                                    : std::ldexp(exponent ? 1024 + fraction : fraction, (exponent ? exponent : 1) - 25);
  return from & 0x8000 ? -size : size;
}

static float bits(u32 from) {
  float x;
  std::memcpy(&x, &from, 4);
  return x;
}

static u32 __float_as_uint(float x) {
  u32 word;
  std::memcpy(&word, &x, 4);
  return word;
}

static float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
#define __expf std::exp
static int min(int a, int b) { return a < b ? a : b; }
using std::fabs;
using std::fmax;

// --- Barriers -------------------------------------------------------------------------------------------------------

static u32 shared_of(const void*) { return 0; }
static void init(u32 barrier, int count) { now->workgroup->phased[barrier] = {count, count}; }
static void fence_inits() {}

static void expect(u32 barrier, int bytes) {
  Phased& at = phased(*now->workgroup, barrier);
  at.missing--, at.bytes += bytes;
  at.look();
}

static void wait(u32 barrier, u32 parity) {
  Phased& at = phased(*now->workgroup, barrier);
  until([&] { return (at.phase & 1) != parity; });
}

static void arrive(u32 barrier, u32 rank) {
  Phased& at = phased(SHARED_BY > 1 ? cluster.workgroups[rank] : *now->workgroup, barrier);
  at.missing--;
  at.look();
}

static void together(int which, int threads) { meet(now->workgroup->named[which], threads); }
static void been_there(int which, int threads) { meet(now->workgroup->named[which], threads, false); }
static void whole_cluster() { meet(cluster.barrier, CLUSTER * 128 * (GROUPS + 1)); }
static void cluster_begun() { whole_cluster(); }
static void __syncwarp() { meet(now->workgroup->warps[now->number / 32], 32); }

// --- Workgroups and their registers ---------------------------------------------------------------------------------

static int rank_in_cluster() { return now->workgroup->rank; }
static u32 in_workgroup(u32 at, int rank) { return at | (u32)rank << 24; }
template <int>
static void fewer_registers() {}
template <int>
static void more_registers() {}

// --- Tiles ----------------------------------------------------------------------------------------------------------

static void prefetch(const void*) {}

struct Base {
  int low, high;
  Base(const void* matrix) : low((u32)(u64)matrix >> 4), high((u64)matrix >> 32) {}
};

// By the words of the descriptor: strides of 16 bytes, sizes and boxes less one.
static void copy(Workgroup* by, u32 to, u64 map, Base base, int column, int row, u32 barrier, bool shared, u32 whom) {
  const u32* words = (const u32*)map;
  const int columns = words[8] + 1, rows = words[9] + 1, wide = (words[13] >> 24) + 1, high = words[14] + 1;
  if (row < 0 || column < 0 || row >= rows || column >= columns) fail("a box begins behind the end of its matrix");
  const unsigned char* matrix = (const unsigned char*)(((u64)(u32)base.low * words[4] + (u64)(u32)base.high * words[5]) << 4);
  for (Workgroup& one : cluster.workgroups) {
    if (shared ? !(whom >> one.rank & 1) : &one != by) continue;
    for (int i = 0; i < high; i++)
      for (int j = 0; j < wide; j++) {
        u16 value = 0;
        if (row + i < rows && column + j < columns)
          std::memcpy(&value, matrix + ((u64)(row + i) * words[3] << 4) + (column + j) * 2, 2);
        write(one, swizzled(to + i * 128 + j * 2), value);
      }
    Phased& at = phased(one, barrier);
    at.bytes -= high * wide * 2;
    at.look();
  }
  moved++;
}

static void send(u32 to, u64 map, Base base, int column, int row, u32 barrier, bool shared, u32 whom) {
  copies.push_back([=, by = now->workgroup] { copy(by, to, map, base, column, row, barrier, shared, whom); });
  if (late_copies) return;
  copies.back()();
  copies.pop_back();
}

static void before_products() { meet(now->workgroup->groups[now->number / 128], 128); }

static void done_but(size_t steps) {
  for (; now->products.size() > steps; now->products.pop_front())
    for (const auto& product : now->products.front()) product();
  before_products();
}

static void after_products() {
  done_but(1);
  now->products.emplace_back();
}

static void all_products() {
  done_but(0);
  now->products.emplace_back();
}

// --- Shared memory --------------------------------------------------------------------------------------------------

static float load1(u32 from) { return read<float>(*now->workgroup, from); }
static u32 load_word(u32 from) { return read<u32>(*now->workgroup, from); }
static void load_words(u32& low, u32& high, u32 from) { low = load_word(from), high = load_word(from + 4); }
static void load4(float* to, u32 from) {
  if (from % 16) fail("shared memory is read unaligned");
  for (int i = 0; i < 4; i++) to[i] = load1(from + i * 4);
}
static void load4_from(float* to, u32 from) {
  if (from % 16) fail("shared memory is read unaligned");
  for (u32 i = 0; i < 4; i++) to[i] = read<float>(cluster.workgroups[from >> 24], (from & 0xffffff) + i * 4);
}
static void store1(u32 to, float x) { write(*now->workgroup, to, x); }
static void store2(u32 to, float x, float y) { store1(to, x), store1(to + 4, y); }
static void bring(u32 to, u64 from) {
  now->brought.push_back([=] {
    for (int i = 0; i < 16; i++) write(*now->workgroup, to + i, ((const unsigned char*)from)[i]);
  });
}
static void all_brought() {
  for (const auto& one : now->brought) one();
  now->brought.clear();
}

// --- Memory ---------------------------------------------------------------------------------------------------------

static void load_global(u32& first, u32& second, u64 from) {
  if (from % 8) fail("memory is read unaligned");
  first = ((const u32*)from)[0], second = ((const u32*)from)[1];
}
static void load_global(u32& first, u32& second, u32& third, u32& fourth, u64 from) {
  if (from % 16) fail("memory is read unaligned");
  load_global(first, second, from), load_global(third, fourth, from + 8);
}
static void store_global(u64 to, const u32* words) {
  if (to % 16) fail("memory is written unaligned");
  std::memcpy((void*)to, words, 16);
}

// --- Numbers --------------------------------------------------------------------------------------------------------

static u16 rounded(float x) {
#if OUT_BF16
  const u32 word = __float_as_uint(x);
  return (word + 0x7fff + (word >> 16 & 1)) >> 16;
#else
  const u16 sign = std::signbit(x) ? 0x8000 : 0;
  const float size = std::fabs(x);
  if (!(size < 65520.0f)) return sign | (size >= 65520.0f ? 0x7c00 : 0x7e00);
  if (size < 0x1p-14f) return sign | (u16)std::nearbyint(size * 0x1p24f);
  const u32 word = __float_as_uint(size);
  return sign | (u16)((word + 0xfff + (word >> 13 & 1) - (112u << 23)) >> 13);
#endif
}

static u32 pair(float low, float high) { return rounded(low) | (u32)rounded(high) << 16; }
static float at_least(float x, float least) { return x < least ? least : x; }
static float at_most(float x, float most) { return x > most ? most : x; }
static float power_of_two(float x) { return std::exp2(x); }

static u32 of_lane_beside(u32 word, int lanes) {
  const int warp = now->number / 32, lane = now->number % 32;
  now->workgroup->words[warp][lane] = word;
  __syncwarp();
  const u32 got = now->workgroup->words[warp][lane ^ lanes];
  __syncwarp();
  return got;
}
