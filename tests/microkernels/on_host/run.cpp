// Runs gemm_cuda on the host: `copies` or `products`, which are to be late; RESULT and its bytes, the operands' files. The kernel's own text, but for the two headers
// that speak to the chip.
#define __device__
#define __constant__ static
#define __global__
#define __shared__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __cluster_dims__(...)

#include <string>

char memory[1];  // each workgroup has its own: addresses in it begin at 0

#include "gemm.cu"

static std::vector<void*> pointers;

static void run_thread() {
  int next = 0;
  const auto pointer = [&] { return pointers[next++]; };
  const u16 *a = (const u16*)pointer(), *b = (const u16*)pointer();
#if BIAS
  const void* bias = pointer();
#endif
#if RESIDUAL
  const void* residual = pointer();
#endif
  gemm_cuda(a, b,
#if BIAS
            bias,
#endif
#if RESIDUAL
            residual,
#endif
            pointer());
  now->over = true;
  moved++;
  _longjmp(scheduler, 1);
}

static void* place_for(size_t bytes) {
  void* at = nullptr;
  if (posix_memalign(&at, 256, bytes)) fail("there is no memory");
  return at;
}

static void* content_of(const char* path) {
  FILE* file = std::fopen(path, "rb");
  if (!file || std::fseek(file, 0, SEEK_END)) fail("an operand cannot be read");
  const size_t bytes = std::ftell(file);
  void* at = place_for(bytes);
  std::rewind(file);
  if (std::fread(at, 1, bytes, file) != bytes) fail("an operand cannot be read");
  std::fclose(file);
  return at;
}

int main(int count, char** words) {
  constexpr int STACK = 1 << 16;
  late_copies = words[1] == std::string("copies");
  const size_t bytes = std::stoull(words[3]);
  for (int i = 4; i < count; i++) pointers.push_back(content_of(words[i]));
  void* result = place_for(bytes);
  std::memset(result, 0xff, bytes);  // not a number
  pointers.push_back(result);
  gridDim.x = GRID;
  std::vector<Thread> threads(CLUSTER * THREADS);
  std::unique_ptr<char[]> stacks(new char[(size_t)STACK * threads.size()]);
  for (int first = 0; first < GRID; first += CLUSTER) {
    cluster = {};
    cluster.workgroups.resize(CLUSTER);
    for (int rank = 0; rank < CLUSTER; rank++) {
      Workgroup& one = cluster.workgroups[rank];
      one.number = first + rank, one.rank = rank;
      one.shared.assign(LOCAL_MEMORY, 0xff);
    }
    for (size_t i = 0; i < threads.size(); i++) {
      Thread& one = threads[i];
      one = {};
      one.number = i % THREADS, one.workgroup = &cluster.workgroups[i / THREADS];
      getcontext(&one.context);
      one.context.uc_stack.ss_sp = &stacks[i * STACK];
      one.context.uc_stack.ss_size = STACK;
      makecontext(&one.context, run_thread, 0);
    }
    for (size_t left = threads.size(); left;) {
      const u64 before = moved;
      for (size_t i = 0; i < threads.size(); i++) {
        now = &threads[late_copies ? threads.size() - 1 - i : i];
        if (now->over || (now->ready && !now->ready())) continue;
        now->ready = nullptr;
        if (!_setjmp(scheduler)) {
          if (now->begun) _longjmp(now->place, 1);
          now->begun = true;
          setcontext(&now->context);
        }
        left -= now->over;
      }
      if (!left || moved != before) continue;
      if (copies.empty()) fail("the kernel hangs: all of its threads wait");
      copies.front()();
      copies.pop_front();
    }
  }
  FILE* file = std::fopen(words[2], "wb");
  if (!file || std::fwrite(result, 1, bytes, file) != bytes || std::fclose(file)) fail("the result cannot be written");
}
