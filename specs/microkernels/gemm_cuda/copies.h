// Which boxes of both matrices a workgroup copies, and where to.
__constant__ const Map x_map = describe(batch * (X_ACROSS ? k : tall), X_ACROSS ? tall : k, X_PITCH, X_ACROSS ? BK : BM);
__constant__ const Map y_map = describe(batch * (Y_ACROSS ? k : broad), Y_ACROSS ? broad : k, Y_PITCH, Y_ACROSS ? BK : BN);

struct Place {
  int entry, row, column;  // of a batch, and of the parts of each
};

// Tiles go in groups of eight rows, so that those that run together share what they read.
__device__ __forceinline__ Place place(int tile, int beside) {
  const int high = (tall + BM * CM - 1) / (BM * CM), wide = (broad + BN * CN - 1) / (BN * CN);
  const int entry = tile / (high * wide), of_entry = tile % (high * wide);
  const int group = of_entry / (8 * wide), within = of_entry % (8 * wide), rows = min(high - group * 8, 8);
  return {entry, ((group * 8 + within % rows) * CM + (CM > 1 ? beside % CM : 0)) * BM,
          (within / rows * CN + (CN > 1 ? beside / CM : 0)) * BN};
}

// What a workgroup goes through: of each of its tiles so many steps, every APARTth from `begin` on. Of those that share what they
// read it is the one `beside` the `first`, above one another before beside one another.
struct Steps {
  u32 ring, barriers;
  int tiles, clusters, beside, first, begin, steps;

  __device__ __forceinline__ Steps(u32 ring, u32 barriers, int rank)
      : ring(ring),
        barriers(barriers),
        tiles((tall + BM * CM - 1) / (BM * CM) * ((broad + BN * CN - 1) / (BN * CN)) * batch * PARTS),
        clusters(gridDim.x / CLUSTER),
        beside(SHARED_BY > 1 ? rank % SHARED_BY : 0),
        first(rank - beside),
        begin(SPLIT > 1 ? rank / SHARED_BY : PARTS > 1 ? place(blockIdx.x, 0).entry % PARTS : 0),
        steps(((k + BK - 1) / BK - begin + APART - 1) / APART) {}

  // The rank of one that copies for this workgroup, or that this one copies for: itself, above and below it, and beside it.
  __device__ __forceinline__ int mate(int which) const {
    if (which < CM) return first + beside / CM * CM + which;
    const int other = which - CM;
    return first + beside % CM + (other + (other >= beside / CM)) * CM;
  }
};

// What one thread does: copies the rows of all steps (X), or their columns; those that share them take turns.
template <bool X>
__device__ __forceinline__ void copy_all(const Steps& all, Base base) {
  constexpr bool ACROSS = X ? X_ACROSS : Y_ACROSS;
  constexpr int SIZE = X ? BM : BN, SHARE = X ? CN : CM, LENGTH = X ? tall : broad, BESIDE = SIZE * (X ? CM : CN);
  // For whom of a cluster: those beside one another, CM apart, or those above one another.
  constexpr u32 OTHERS = X ? (CN > 1 ? 1u | 1u << CM | (CN > 2 ? 1u << 2 * CM | 1u << 3 * CM : 0) : 1) : (1u << CM) - 1;
  // A box that begins behind the end would fault, as the descriptor's own address is none. What it holds is never put.
  constexpr bool BEYOND = (LENGTH + BESIDE - 1) / BESIDE * BESIDE - (ACROSS ? 64 : SIZE) >= LENGTH;
  const auto inside = [](int at) { return BEYOND && at >= LENGTH ? 0 : at; };
  const u64 map = (u64)(X ? &x_map : &y_map);
  const int turn = X ? all.beside / CM : all.beside % CM;
  const u32 whom = OTHERS << all.first + (X ? all.beside % CM : all.beside / CM * CM);
  int done = 0;
  for (int tile = blockIdx.x / CLUSTER; tile < all.tiles; tile += all.clusters) {
    const Place at = place(tile, all.beside);
    const int entry = at.entry / PARTS, first = X ? at.row : at.column;
#pragma unroll 1
    for (int s = 0; s < all.steps; s++, done++) {
      const int stage = done % STAGES, depth = (all.begin + s * APART) * BK;
      const u32 full = all.barriers + stage * 16, to = all.ring + stage * STAGE + (X ? 0 : X_BYTES);
      wait(full + 8, done / STAGES & 1 ^ 1);
      expect(full, SIZE * BK * 2);
      if (SHARE > 1 && s % SHARE != turn) continue;
      for (int i = 0; i < (ACROSS ? SIZE / 64 : 1); i++)
        if (ACROSS)
          send(to + i * 8192, map, base, inside(first + i * 64), entry * k + depth, full, SHARE > 1, whom);
        else
          send(to, map, base, depth, entry * LENGTH + inside(first), full, SHARE > 1, whom);
    }
  }
  // None leaves while another still sends to it.
  if (SHARED_BY > 1)
    for (int i = 0; i < STAGES; i++, done++) wait(all.barriers + done % STAGES * 16 + 8, done / STAGES & 1 ^ 1);
}
