/* Packing: gathering a strided operand into the order in which tiles read it.  Works on
 * elements of 2, 4, 8 or 16 bytes whatever their type (a complex number is one element).
 * Included once per size by gemm_kernels.h with
 *   TXG_P    prefix of the functions made here
 *   TXG_E    element type, TXG_V and TXG_M vector of such elements in registers and memory
 *   TXG_TR   loads a square transposed; not defined: no such path
 *   TXG_PAIR 1: elements of 2 bytes, whose squares are transposed as pairs and then split */

#define FN(x) TXG_CAT(TXG_P, x)
#define E TXG_E
#define SQ ((int64_t)(TXG_VB / sizeof(E)))

/* dst[k * w + l] = src[l * ls + k * ks] for l < n and k0 <= k < kc */
static void FN(_slow)(E *dst, int64_t w, const E *src, int64_t ls, int64_t ks, int64_t n, int64_t k0, int64_t kc) {
    for (int64_t k = k0; k < kc; k++) {
        const E *s = src + k * ks;
        for (int64_t l = 0; l < n; l++) dst[k * w + l] = s[l * ls];
    }
}

/* The same with ls == 1: rows of n adjacent elements. */
static void FN(_rows)(E *dst, int64_t w, const E *src, int64_t ks, int64_t n, int64_t kc) {
    const int64_t whole = n - n % SQ;
    for (int64_t k = 0; k < kc; k++) {
        const E *s = src + k * ks;
        E *d = dst + k * w;
        for (int64_t l = 0; l < whole; l += SQ) *(mtxg_any *)(d + l) = *(const mtxg_any *)(s + l);
        for (int64_t l = whole; l < n; l++) d[l] = s[l];
    }
}

/* The same with ks == 1: n columns, each adjacent in memory. */
static void FN(_columns)(E *dst, int64_t w, const E *src, int64_t ls, int64_t n, int64_t kc) {
    int64_t l = 0;
#ifdef TXG_TR
    for (; l + SQ <= n; l += SQ) {
        const E *s = src + l * ls;
        int64_t k = 0;
        for (; k + SQ <= kc; k += SQ) {
            TXG_V r[TXG_VB / sizeof(E)];
            TXG_TR(r, s + k, ls * (int64_t)sizeof(E));
            TXG_UNROLL
            for (int q = 0; q < SQ; q++) *(TXG_M *)(dst + (k + q) * w + l) = (TXG_M)r[q];
        }
        FN(_slow)(dst + l, w, s, ls, 1, SQ, k, kc);
    }
#elif defined(TXG_PAIR)
    enum { L4 = TXG_VB / 4 };
    typedef uint16_t half __attribute__((vector_size(TXG_VB / 2)));
    typedef uint16_t mhalf __attribute__((vector_size(TXG_VB / 2), aligned(2), may_alias));
    for (; l + L4 <= n; l += L4) {
        const E *s = src + l * ls;
        int64_t k = 0;
        for (; k + 2 * L4 <= kc; k += 2 * L4) {
            vtxg_u32 r[L4];
            txg_square_u32(r, s + k, ls * (int64_t)sizeof(E));
            TXG_UNROLL
            for (int q = 0; q < L4; q++) {
                const vtxg_u32 lo = r[q] & 0xffff, hi = r[q] >> 16;
                E *d = dst + (k + 2 * q) * w + l;
                *(mhalf *)d = (mhalf)__builtin_convertvector(lo, half);
                *(mhalf *)(d + w) = (mhalf)__builtin_convertvector(hi, half);
            }
        }
        FN(_slow)(dst + l, w, s, ls, 1, L4, k, kc);
    }
#endif
    if (l < n) FN(_slow)(dst + l, w, src + l * ls, ls, 1, n - l, 0, kc);
}

static void FN(_any)(E *dst, int64_t w, const E *src, int64_t ls, int64_t ks, int64_t n, int64_t kc) {
    if (ls == 1)
        FN(_rows)(dst, w, src, ks, n, kc);
    else if (ks == 1)
        FN(_columns)(dst, w, src, ls, n, kc);
    else
        FN(_slow)(dst, w, src, ls, ks, n, 0, kc);
}

/* Panels of w columns, see txg_kernel.pack_b. Adjacent columns are read along whole rows, past the
 * panels' borders: memory likes long runs. */
static void FN(_b)(void *dst, const void *src, int64_t w, int64_t cs, int64_t ks, int64_t n, int64_t kc) {
    if (cs == 1 && n > w) {
        const int64_t full = n / w * w;
        const E *s = (const E *)src;
        for (int64_t k = 0; k < kc; k++, s += ks)
            for (int64_t j = 0; j < full; j += w) FN(_rows)((E *)dst + j * kc + k * w, w, s + j, 0, w, 1);
        if (full < n) FN(_b)((E *)dst + full * kc, (const E *)src + full, w, cs, ks, n - full, kc);
        return;
    }
    for (int64_t j = 0; j < n; j += w) {
        E *d = (E *)dst + j * kc;
        const int64_t nc = n - j < w ? n - j : w;
        if (nc < w)
            for (int64_t k = 0; k < kc; k++) memset(d + k * w + nc, 0, (size_t)(w - nc) * sizeof(E));
        FN(_any)(d, w, (const E *)src + j * cs, cs, ks, nc, kc);
    }
}

/* Rows of kc adjacent elements, ld apart: the same with the axes named otherwise. */
static void FN(_a)(void *dst, int64_t ld, const void *src, int64_t rs, int64_t ks, int64_t m, int64_t kc) {
    FN(_any)((E *)dst, ld, (const E *)src, ks, rs, kc, m);
}

#undef FN
#undef E
#undef SQ
#undef TXG_P
#undef TXG_E
#undef TXG_V
#undef TXG_M
#undef TXG_TR
#undef TXG_PAIR
