// Of the problem, and of what is copied in a step.
enum : int { m = SIZE_M, n = SIZE_N, k = DEEP, batch = SIZE_B };
enum : int { BK = 64, SHARED_BY = CM * CN, MATES = CM + CN - 1, APART = SPLIT * PARTS };
enum : int { X_BYTES = BM * BK * 2, Y_BYTES = BN * BK * 2, STAGE = X_BYTES + Y_BYTES };
enum : int { tall = TURNED ? n : m, broad = TURNED ? m : n };  // of all tiles together
enum : int { X_PITCH = TURNED ? RHS_PITCH : LHS_PITCH, Y_PITCH = TURNED ? LHS_PITCH : RHS_PITCH };  // from row to row
