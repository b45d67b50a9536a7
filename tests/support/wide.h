// AVX-512 for processors without it: sixteen lanes in the compiler's own vectors, and the two instructions that kernels ask for by name.

#define __AVX512F__ 1

typedef float sixteen __attribute__((vector_size(64)));

static inline __attribute__((always_inline)) sixteen masked_load(const void* from, sixteen other, unsigned short lanes) {
  for (int i = 0; i < 16; ++i)
    if (lanes >> i & 1) other[i] = ((const float*)from)[i];
  return other;
}

static inline __attribute__((always_inline)) void masked_store(void* to, sixteen x, unsigned short lanes) {
  for (int i = 0; i < 16; ++i)
    if (lanes >> i & 1) ((float*)to)[i] = x[i];
}

#define __builtin_ia32_loadups512_mask masked_load
#define __builtin_ia32_storeups512_mask masked_store
