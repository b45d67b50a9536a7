// wgmma for every width that is a multiple of 16: d += x * y, or d = x * y where `more` is 0. 64 rows, 32 bytes deep; x and y
// are descriptors of shared memory. An instruction names each of its registers: eight for 16 columns.
template <int COLUMNS>
struct Product;

#define SIDES(X_SIDE, Y_SIDE) ", " X_SIDE ", " Y_SIDE
#if LHS_F16
#define OF "k16.f32.f16.f16"
#elif LHS_BF16
#define OF "k16.f32.bf16.bf16"
#elif LHS_F8E4M3FN  // along the depth always
#define OF "k32.f32.e4m3.e4m3"
#undef SIDES
#define SIDES(X_SIDE, Y_SIDE)
#endif

#define R1 "%0, %1, %2, %3, %4, %5, %6, %7"
#define R2 R1 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define R3 R2 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define R4 R3 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define R5 R4 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define R6 R5 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define R7 R6 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define R8 R7 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define R9 R8 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define R10 R9 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define R11 R10 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define R12 R11 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define R13 R12 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define R14 R13 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define R15 R14 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define R16 R15 ", %120, %121, %122, %123, %124, %125, %126, %127"

#define D1 "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
#define D2 D1, "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
#define D3 D2, "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23])
#define D4 D3, "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
#define D5 D4, "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39])
#define D6 D5, "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
#define D7 D6, "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55])
#define D8 D7, "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
#define D9 D8, "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71])
#define D10 D9, "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79])
#define D11 D10, "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87])
#define D12 D11, "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
#define D13 D12, "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103])
#define D14 D13, "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111])
#define D15 D14, "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119])
#define D16 D15, "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])

#define PRODUCT(COLUMNS, REGISTERS, X, Y, MORE, X_SIDE, Y_SIDE, ...)                                                        \
  template <>                                                                                                              \
  struct Product<COLUMNS> {                                                                                                \
    static __device__ __forceinline__ void add(float (&d)[COLUMNS / 2], u64 x, u64 y, int more) {                          \
      asm volatile("{ .reg .pred p; setp.ne.b32 p, " MORE ", 0; wgmma.mma_async.sync.aligned.m64n" #COLUMNS OF           \
                   " {" REGISTERS "}, " X ", " Y ", p, 1, 1" SIDES(X_SIDE, Y_SIDE) "; }"                                   \
                   : __VA_ARGS__                                                                                           \
                   : "l"(x), "l"(y), "r"(more), "n"(X_ACROSS), "n"(Y_ACROSS));                                             \
    }                                                                                                                      \
  };

PRODUCT(16, R1, "%8", "%9", "%10", "%11", "%12", D1)
PRODUCT(32, R2, "%16", "%17", "%18", "%19", "%20", D2)
PRODUCT(48, R3, "%24", "%25", "%26", "%27", "%28", D3)
PRODUCT(64, R4, "%32", "%33", "%34", "%35", "%36", D4)
PRODUCT(80, R5, "%40", "%41", "%42", "%43", "%44", D5)
PRODUCT(96, R6, "%48", "%49", "%50", "%51", "%52", D6)
PRODUCT(112, R7, "%56", "%57", "%58", "%59", "%60", D7)
PRODUCT(128, R8, "%64", "%65", "%66", "%67", "%68", D8)
PRODUCT(144, R9, "%72", "%73", "%74", "%75", "%76", D9)
PRODUCT(160, R10, "%80", "%81", "%82", "%83", "%84", D10)
PRODUCT(176, R11, "%88", "%89", "%90", "%91", "%92", D11)
PRODUCT(192, R12, "%96", "%97", "%98", "%99", "%100", D12)
PRODUCT(208, R13, "%104", "%105", "%106", "%107", "%108", D13)
PRODUCT(224, R14, "%112", "%113", "%114", "%115", "%116", D14)
PRODUCT(240, R15, "%120", "%121", "%122", "%123", "%124", D15)
PRODUCT(256, R16, "%128", "%129", "%130", "%131", "%132", D16)
