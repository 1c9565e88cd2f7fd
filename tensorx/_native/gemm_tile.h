/* Register tiles and the block loop over them, for one computed type.  Included once per
 * type by gemm_kernels.h with
 *   TXG_N     name suffix of the functions made here
 *   TXG_T     scalar type, TXG_TN its short name (f32, f64, u16, u32, u64)
 *   TXG_CPLX  1: elements are (re, im) pairs of TXG_T
 *
 * A complex tile is a real tile whose rows are re(A), im(A) alternately and whose columns
 * are B as it lies in memory: the rows sum ar * (br, bi) and ai * (br, bi), and the
 * epilogue combines them to (S ar*br - S ai*bi, S ar*bi + S ai*br).  Neither operand
 * needs to be taken apart. */

#define FN(x) TXG_CAT(TXG_CAT(x, _), TXG_N)
#define T TXG_T
#define V TXG_CAT(vtxg_, TXG_TN)
#define M TXG_CAT(mtxg_, TXG_TN)
#define FMA TXG_CAT(TXG_FMA_, TXG_TN)
#if TXG_MASKED
#define LOADM TXG_CAT(TXG_LOADM_, TXG_TN)
#define STOREM TXG_CAT(TXG_STOREM_, TXG_TN)
#define LOAD(v, p) ((v) == nv - 1 ? LOADM(mask, (p) + (v) * LT) : (V)*(const M *)((p) + (v) * LT))
#else
#define LOAD(v, p) ((V)*(const M *)((p) + (v) * LT))
#endif
#define LT ((int)(TXG_VB / sizeof(T)))   /* scalars per vector */
#define PER (TXG_CPLX ? 2 : 1)           /* scalars per element */
#define MR (TXG_MR / PER)                /* elements */
#define LANES (LT / PER)
#define NR (LANES * TXG_NV)

#ifndef TXG_SIGNS
#define TXG_SIGNS
/* Factors of (sum ar*b) and swapped (sum ai*b), even and odd lanes, by conj bits / 2. */
static const signed char txg_signs[4][4] = {{1, 1, -1, 1}, {1, 1, 1, -1}, {1, -1, 1, 1}, {1, -1, -1, -1}};
#endif

#if !TXG_MASKED
/* A tile whose last vector is not full goes out one scalar at a time. */
TXG_HOT void FN(txg_edge)(const T *tile, int mr, T *c, ptrdiff_t crs, int64_t w, int add, const T *bias) {
    for (int i = 0; i < mr; i++, tile += TXG_NV * LT, c += crs) {
        for (int64_t j = 0; j < w; j++) {
            T x = tile[j];
            if (add) x = (T)(c[j] + x);
            if (bias) x = (T)(x + bias[j]);
            c[j] = x;
        }
    }
}

#endif

/* C tile (mr x nc elements, nc <= nv * LANES) = or += A B over one run of kc. Strides in scalars. */
TXG_INLINE void FN(txg_tile)(const int mr, const int nv, int64_t kc, const T *a, ptrdiff_t ars, ptrdiff_t aks,
                             const T *b, ptrdiff_t bks, T *c, ptrdiff_t crs, int64_t nc, int add,
                             const T *bias, int conj) {
    V acc[TXG_MR][TXG_NV];
    const int rows = mr * PER;
    TXG_UNROLL
    for (int i = 0; i < rows; i++) {
        TXG_UNROLL
        for (int v = 0; v < nv; v++) acc[i][v] = (V){0};
    }
    TXG_UNROLL
    for (int i = 0; i < mr; i++) {
        TXG_UNROLL
        for (int v = 0; v < nv; v++) __builtin_prefetch((const char *)(c + i * crs) + v * TXG_VB, 1);
    }
#if TXG_MASKED
    const uint64_t mask = ((uint64_t)1 << (nc - (nv - 1) * LANES) * PER) - 1;
#endif
    TXG_NO_UNROLL
    for (int64_t k = 0; k < kc; k++) {
        V bv[TXG_NV];
        TXG_UNROLL
        for (int v = 0; v < nv; v++) bv[v] = LOAD(v, b);
        TXG_UNROLL
        for (int i = 0; i < rows; i++) {
            const int r = i / PER;
            const T s = a[(r / 3) * 3 * ars + (r % 3) * ars + i % PER];
            TXG_UNROLL
            for (int v = 0; v < nv; v++) acc[i][v] = FMA(s, bv[v], acc[i][v]);
        }
        a += aks;
        b += bks;
    }
#if TXG_CPLX
    V s1, s2;
    const signed char *sg = txg_signs[(conj >> 1) & 3];
    for (int l = 0; l < LT; l++) { s1[l] = (T)sg[l & 1]; s2[l] = (T)sg[2 + (l & 1)]; }
    TXG_UNROLL
    for (int i = 0; i < mr; i++) {
        TXG_UNROLL
        for (int v = 0; v < nv; v++)
            acc[i][v] = s1 * acc[2 * i][v] + s2 * FN(txg_swap)(acc[2 * i + 1][v]);
    }
#else
    (void)conj;
#endif
#if !TXG_MASKED
    if (nc == nv * LANES) {
#endif
        TXG_UNROLL
        for (int i = 0; i < mr; i++) {
            TXG_UNROLL
            for (int v = 0; v < nv; v++) {
                V x = acc[i][v];
                if (add) x = LOAD(v, c + i * crs) + x;
                if (bias) x = x + LOAD(v, bias);
#if TXG_MASKED
                if (v == nv - 1) {
                    STOREM(mask, c + i * crs + v * LT, x);
                    continue;
                }
#endif
                *(M *)(c + i * crs + v * LT) = (M)x;
            }
        }
#if !TXG_MASKED
    } else {
        T tile[TXG_MR * TXG_NV * LT];
        TXG_UNROLL
        for (int i = 0; i < mr; i++) {
            TXG_UNROLL
            for (int v = 0; v < nv; v++) *(M *)(tile + (i * TXG_NV + v) * LT) = (M)acc[i][v];
        }
        FN(txg_edge)(tile, mr, c, crs, nc * PER, add, bias);
    }
#endif
}

typedef void (*FN(txg_tile_fn))(int64_t, const T *, ptrdiff_t, ptrdiff_t, const T *, ptrdiff_t, T *, ptrdiff_t, int64_t,
                                int, const T *, int);

#define TXG_TILE(mr, nv)                                                                                          \
    TXG_HOT void FN(txg_tile_##mr##_##nv)(int64_t kc, const T *a, ptrdiff_t ars, ptrdiff_t aks, const T *b,        \
                                          ptrdiff_t bks, T *c, ptrdiff_t crs, int64_t nc, int add, const T *bias, \
                                          int conj) {                                                             \
        FN(txg_tile)(mr, nv, kc, a, ars, aks, b, bks, c, crs, nc, add, bias, conj);                               \
    }
#if TXG_NV == 4
#define TXG_ROW(mr) TXG_TILE(mr, 1) TXG_TILE(mr, 2) TXG_TILE(mr, 3) TXG_TILE(mr, 4)
#define TXG_REF(mr) {FN(txg_tile_##mr##_1), FN(txg_tile_##mr##_2), FN(txg_tile_##mr##_3), FN(txg_tile_##mr##_4)}
#else
#define TXG_ROW(mr) TXG_TILE(mr, 1) TXG_TILE(mr, 2)
#define TXG_REF(mr) {FN(txg_tile_##mr##_1), FN(txg_tile_##mr##_2)}
#endif

TXG_ROW(1) TXG_ROW(2)
#if TXG_MR == 6 || !TXG_CPLX
TXG_ROW(3)
#endif
#if !TXG_CPLX
TXG_ROW(4)
#if TXG_MR == 6
TXG_ROW(5) TXG_ROW(6)
#endif
#endif

static const FN(txg_tile_fn) FN(txg_tiles)[][TXG_NV] = {
    TXG_REF(1), TXG_REF(2),
#if TXG_MR == 6 || !TXG_CPLX
    TXG_REF(3),
#endif
#if !TXG_CPLX
    TXG_REF(4),
#if TXG_MR == 6
    TXG_REF(5), TXG_REF(6),
#endif
#endif
};

static void FN(txg_block)(const txg_block *g) {
    const T *a = (const T *)g->a, *bias = (const T *)g->bias;
    const ptrdiff_t ars = g->a_rs * PER, aks = g->a_ks * PER, bks = g->b_ks * PER, crs = g->c_rs * PER;
    for (int64_t j = 0, p = 0; j < g->n; j += NR, p++) {
        const int64_t nc = g->n - j < NR ? g->n - j : NR;
        const int nv = (int)((nc + LANES - 1) / LANES);
        const T *b = (const T *)g->b + p * g->b_ps * PER;
        T *c = (T *)g->c + j * PER;
        for (int64_t i = 0; i < g->m; i += MR) {
            const int mr = (int)(g->m - i < MR ? g->m - i : MR);
            FN(txg_tiles)[mr - 1][nv - 1](g->kc, a + i * ars, ars, aks, b, bks, c + i * crs, crs, nc, g->add,
                                          bias ? bias + j * PER : NULL, g->conj);
        }
    }
}

static void FN(txg_fold)(void *sum, const void *part, int64_t n) {
    T *s = (T *)sum;
    const T *p = (const T *)part;
    for (int64_t i = 0; i < n * PER; i++) s[i] = (T)(s[i] + p[i]);
}

/* Dot product: lane l sums elements l, l + TXG_DOT_LANES, ...; the lanes then fold in halves. */
#define TXG_DOT_LANES 64
#define DT (TXG_DOT_LANES / LT > 0 ? TXG_DOT_LANES / LT : 1)
#define TXG_DOT_STEP (TXG_DOT_LANES / PER)

static void FN(txg_dot)(void *out, const void *ap, int64_t as, const void *bp, int64_t bs, int64_t n, int32_t conj) {
    const T *a = (const T *)ap, *b = (const T *)bp;
    T ta[TXG_DOT_LANES], tb[TXG_DOT_LANES];
    V acc[DT];
    V acx[DT];
    for (int v = 0; v < DT; v++) acc[v] = acx[v] = (V){0};
    for (int64_t i = 0; i < n; i += TXG_DOT_STEP) {
        const int64_t left = n - i < TXG_DOT_STEP ? n - i : TXG_DOT_STEP;
        const T *pa = a + i * as * PER, *pb = b + i * bs * PER;
        if (as != 1 || left < TXG_DOT_STEP) {
            for (int l = 0; l < TXG_DOT_LANES; l++)
                ta[l] = l / PER < left ? pa[(l / PER) * as * PER + l % PER] : (T)0;
            pa = ta;
        }
        if (bs != 1 || left < TXG_DOT_STEP) {
            for (int l = 0; l < TXG_DOT_LANES; l++)
                tb[l] = l / PER < left ? pb[(l / PER) * bs * PER + l % PER] : (T)0;
            pb = tb;
        }
        TXG_UNROLL
        for (int v = 0; v < DT; v++) {
            const V x = (V)*(const M *)(pa + v * LT), y = (V)*(const M *)(pb + v * LT);
            acc[v] = TXG_CAT(TXG_VFMA_, TXG_TN)(x, y, acc[v]);
#if TXG_CPLX
            acx[v] = TXG_CAT(TXG_VFMA_, TXG_TN)(x, FN(txg_swap)(y), acx[v]);
#endif
        }
    }
    T lane[TXG_DOT_LANES], cross[TXG_DOT_LANES];
    for (int v = 0; v < DT; v++) { *(M *)(lane + v * LT) = (M)acc[v]; *(M *)(cross + v * LT) = (M)acx[v]; }
    for (int h = TXG_DOT_LANES / 2; h >= PER; h /= 2)
        for (int l = 0; l < h; l++) { lane[l] = (T)(lane[l] + lane[l + h]); cross[l] = (T)(cross[l] + cross[l + h]); }
    T *o = (T *)out;
#if TXG_CPLX
    /* lane: (S ar*br, S ai*bi); cross: (S ar*bi, S ai*br) */
    const signed char *sg = txg_signs[(conj >> 1) & 3];
    o[0] = (T)sg[0] * lane[0] + (T)sg[2] * lane[1];
    o[1] = (T)sg[1] * cross[0] + (T)sg[3] * cross[1];
#else
    (void)conj; (void)cross;
    o[0] = lane[0];
#endif
}

static void FN(txg_dot_sum)(void *out, const void *partial, int64_t count) {
    const T *p = (const T *)partial;
    for (int q = 0; q < PER; q++) {
        TXG_SUM_T s = 0;
        for (int64_t i = 0; i < count; i++) s += p[i * PER + q];
        ((T *)out)[q] = (T)s;
    }
}

#undef FN
#undef T
#undef V
#undef M
#undef FMA
#undef LOAD
#undef LOADM
#undef STOREM
#undef LT
#undef PER
#undef MR
#undef LANES
#undef NR
#undef DT
#undef TXG_DOT_LANES
#undef TXG_DOT_STEP
#undef TXG_TILE
#undef TXG_ROW
#undef TXG_REF
#undef TXG_N
#undef TXG_T
#undef TXG_TN
#undef TXG_CPLX
#undef TXG_SUM_T
