/* Per stored type: the finish step, and packing with conversion where stored and computed types
 * differ.  Included by gemm_kernels.h with
 *   TXG_N     name of the stored type (suffix of txg_load_, txg_store_)
 *   TXG_S     stored scalar, TXG_T computed scalar, TXG_PER scalars per element
 *   TXG_WIDEN 1: stored and computed types differ
 *   TXG_THIN_OF thin function of the computed type; not defined: none
 *   TXG_PACK  packing functions of the computed type, TXG_TILE_N its tile functions */

#define FN(x) TXG_CAT(x, TXG_N)
#define S TXG_S
#define T TXG_T
#define PER TXG_PER
#define CHUNK 256

/* Every step rounds to the stored type, as the same steps taken one by one would. */
static void FN(txg_finish_)(const txg_finish *f) {
    T x[CHUNK * PER], y[CHUNK * PER];
    S z[CHUNK * PER];
    for (int64_t i = 0; i < f->m; i++) {
        for (int64_t j = 0; j < f->n; j += CHUNK) {
            const int64_t n = f->n - j < CHUNK ? f->n - j : CHUNK;
            const T *w = (const T *)f->work + (i * f->w_rs + j) * PER;
            S *c = (S *)f->c + (i * f->c_rs + j * f->c_cs) * PER;
            if (f->bias) {
                if (TXG_WIDEN) {
                    FN(txg_store_)(z, w, n);
                    FN(txg_load_)(x, z, 1, n);
                    w = x;
                }
                FN(txg_load_)(y, (const S *)f->bias + (i * f->bias_rs + j * f->bias_cs) * PER, f->bias_cs, n);
                for (int64_t q = 0; q < n * PER; q++) x[q] = (T)(w[q] + y[q]);
                w = x;
            }
            if (f->accumulate) {
                if (TXG_WIDEN) {
                    FN(txg_store_)(z, w, n);
                    FN(txg_load_)(x, z, 1, n);
                    w = x;
                }
                FN(txg_load_)(y, c, f->c_cs, n);
                for (int64_t q = 0; q < n * PER; q++) x[q] = (T)(y[q] + w[q]);
                w = x;
            }
            if (f->c_cs == 1) {
                FN(txg_store_)(c, w, n);
            } else {
                FN(txg_store_)(z, w, n);
                for (int64_t q = 0; q < n; q++)
                    for (int e = 0; e < PER; e++) c[q * f->c_cs * PER + e] = z[q * PER + e];
            }
        }
    }
}

#define NR (TXG_NV * (int)(TXG_VB / (sizeof(T) * PER)))

static void FN(txg_pack_b_)(void *dst, const void *src, int64_t cs, int64_t ks, int64_t n, int64_t kc) {
#if TXG_WIDEN
    enum { SQ = TXG_VB / sizeof(T) };
    T run[SQ * TXG_KC];
    for (int64_t j = 0; j < n; j += NR) {
        const int64_t nc = n - j < NR ? n - j : NR;
        T *d = (T *)dst + j * kc;
        const S *s = (const S *)src + j * cs;
        if (cs == 1) {
            for (int64_t k = 0; k < kc; k++) {
                FN(txg_load_)(d + k * NR, s + k * ks, 1, nc);
                for (int64_t l = nc; l < NR; l++) d[k * NR + l] = 0;
            }
            continue;
        }
        for (int64_t l = 0; l < NR; l += SQ) {
            const int64_t lanes = nc - l < SQ ? (nc > l ? nc - l : 0) : SQ;
            for (int64_t q = 0; q < lanes; q++) FN(txg_load_)(run + q * kc, s + (l + q) * cs, ks, kc);
            memset(run + lanes * kc, 0, (size_t)((SQ - lanes) * kc) * sizeof(T));
            /* a panel NR wide, of which this fills SQ columns */
            TXG_CAT(TXG_PACK, _any)((void *)(d + l), NR, (const void *)run, kc, 1, SQ, kc);
        }
    }
#else
    TXG_CAT(TXG_PACK, _b)(dst, src, NR, cs, ks, n, kc);
#endif
}

static void FN(txg_pack_a_)(void *dst, int64_t ld, const void *src, int64_t rs, int64_t ks, int64_t m, int64_t kc) {
#if TXG_WIDEN
    if (rs == 1 && ks != 1) {
        T run[TXG_KC];
        T *d = (T *)dst;
        for (int64_t i = 0; i < m; i += TXG_KC) {
            const int64_t n = m - i < TXG_KC ? m - i : TXG_KC;
            for (int64_t k = 0; k < kc; k++) {
                FN(txg_load_)(run, (const S *)src + i + k * ks, 1, n);
                for (int64_t q = 0; q < n; q++) d[(i + q) * ld + k] = run[q];
            }
        }
        return;
    }
    for (int64_t i = 0; i < m; i++) FN(txg_load_)((T *)dst + i * ld, (const S *)src + i * rs, ks, kc);
#else
    TXG_CAT(TXG_PACK, _a)(dst, ld, src, rs, ks, m, kc);
#endif
}

#if TXG_WIDEN
static void FN(txg_dot_of_)(void *acc, const void *a, int64_t as, const void *b, int64_t bs, int64_t n, int32_t conj) {
    T x[TXG_DOT_CHUNK], y[TXG_DOT_CHUNK];
    FN(txg_load_)(x, (const S *)a, as, n);
    FN(txg_load_)(y, (const S *)b, bs, n);
    TXG_CAT(txg_dot_, TXG_TILE_N)(acc, x, 1, y, 1, n, conj);
}
#endif

#ifdef TXG_THIN_OF
/* Inner axis adjacent: a few columns at a time are widened and go to the computed type's function. */
static void FN(txg_thin_)(const txg_block *g)
{
    enum { SQ = TXG_VB / sizeof(T) };
    T run[SQ * TXG_KC];
    txg_block t = *g;
    for (int64_t j = 0; j < g->n; j += SQ) {
        t.n = g->n - j < SQ ? g->n - j : SQ;
        for (int64_t l = 0; l < t.n; l++) FN(txg_load_)(run + l * g->kc, (const S *)g->b + (j + l) * g->b_cs, 1, g->kc);
        t.b = run;
        t.b_cs = g->kc;
        t.c = (T *)g->c + j;
        TXG_THIN_OF(&t);
    }
}
#undef TXG_THIN_OF
#endif

#undef FN
#undef S
#undef T
#undef PER
#undef CHUNK
#undef NR
#undef TXG_N
#undef TXG_S
#undef TXG_T
#undef TXG_PER
#undef TXG_WIDEN
#undef TXG_PACK
#undef TXG_TILE_N
