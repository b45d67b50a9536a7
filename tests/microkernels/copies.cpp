// What each workgroup of gemm_cuda copies: its own copies.h, run on the host, where a copy is a line of the output.
#include <algorithm>
#include <cstdio>

typedef unsigned long long u64;
typedef unsigned u32;
using std::min;
#define __device__
#define __constant__ static
#define __forceinline__ inline
static struct {
  int x;
} blockIdx, gridDim;

#include "sizes.h"

struct Map {
  u32 rows, columns, box;
};
constexpr Map describe(u32 rows, u32 columns, u32 box) { return {rows, columns, box}; }
struct Base {};

static int step = -1;
static void wait(u32, u32) { step++; }
static void expect(u32, int bytes) { std::printf("expect %d %d %d\n", blockIdx.x, step, bytes); }
// workgroup, step, place in shared memory, rows and columns of the matrix, rows of the box, its first row and column, 1: to all
static void send(u32 to, u64 map, Base, int column, int row, u32, bool to_all) {
  const Map& of = *(const Map*)map;
  std::printf("copy %d %d %u %u %u %u %d %d %d\n", blockIdx.x, step, to, of.rows, of.columns, of.box, row, column, to_all);
}

#include "copies.h"

int main() {
  gridDim.x = GRID;
  for (blockIdx.x = 0; blockIdx.x < GRID; blockIdx.x++) {
    const Steps all(0, 0, blockIdx.x % CLUSTER);
    for (int tile = blockIdx.x / CLUSTER; tile < all.tiles; tile += all.clusters) {
      const Place at = place(tile, all.rank);
      std::printf("tile %d %d %d %d %d %d\n", blockIdx.x, at.entry, at.row, at.column, all.begin, all.steps);
    }
    step = -1;
    copy_all<true>(all, {});
    step = -1;
    copy_all<false>(all, {});
  }
}
