/* Products of very few rows (matrix times vector and the like), straight from B where it lies:
 * such a product reads every element of B once or a few times, so the time is that of reading it.
 * The order of operations is that of the tiles.  Included per computed type with
 *   TXG_T, TXG_TN  scalar type and its short name
 *   TXG_UV         vector of unsigned integers of that size, TXG_TR loads a square of them transposed */

#define FN(x) TXG_CAT(TXG_CAT(x, _), TXG_TN)
#define T TXG_T
#define V TXG_CAT(vtxg_, TXG_TN)
#define M TXG_CAT(mtxg_, TXG_TN)
#define FMA TXG_CAT(TXG_FMA_, TXG_TN)
#define LT ((int)(TXG_VB / sizeof(T)))
#define WIDTH ((int)(4096 / sizeof(T)))  /* columns whose sums stay in L1 */
#define GROUP 8                          /* rows of B read side by side */

TXG_HOT void FN(txg_thin_put)(const T *sum, const txg_block *g, int64_t i, int64_t j, int64_t n)
{
    T *c = (T *)g->c + i * g->c_rs + j;
    const T *bias = g->bias ? (const T *)g->bias + j : NULL;
    for (int64_t q = 0; q < n; q++) {
        T x = sum[q];
        if (g->add) x = c[q] + x;
        if (bias) x = x + bias[q];
        c[q] = x;
    }
}

TXG_HOT void FN(txg_thin_add)(T *sum, T s, const T *b, int64_t n)
{
    for (int64_t q = 0; q < n; q++) sum[q] = TXG_CAT(TXG_SFMA_, TXG_TN)(s, b[q], sum[q]);
}

/* Columns adjacent: rows of B stream by, sums are kept in memory. */
TXG_INLINE void FN(txg_thin_rows)(const int mr, const txg_block *g)
{
    const T *a = (const T *)g->a;
    T sum[TXG_THIN * WIDTH] __attribute__((aligned(64)));
    for (int64_t j = 0; j < g->n; j += WIDTH) {
        const int64_t w = g->n - j < WIDTH ? g->n - j : WIDTH;
        memset(sum, 0, sizeof(T) * (size_t)(mr * WIDTH));
        const T *b = (const T *)g->b + j;
        int64_t k = 0;
        for (; k + GROUP <= g->kc; k += GROUP, b += GROUP * g->b_ks) {
            int64_t q = 0;
            for (; q + LT <= w; q += LT) {
                TXG_UNROLL
                for (int i = 0; i < mr; i++) {
                    V s = *(const V *)(sum + i * WIDTH + q);
                    TXG_UNROLL
                    for (int r = 0; r < GROUP; r++)
                        s = FMA(a[i * g->a_rs + (k + r) * g->a_ks], (V)*(const M *)(b + r * g->b_ks + q), s);
                    *(V *)(sum + i * WIDTH + q) = s;
                }
            }
            if (q < w)
                for (int i = 0; i < mr; i++)
                    for (int r = 0; r < GROUP; r++)
                        FN(txg_thin_add)(sum + i * WIDTH + q, a[i * g->a_rs + (k + r) * g->a_ks], b + r * g->b_ks + q, w - q);
        }
        for (; k < g->kc; k++, b += g->b_ks)
            for (int i = 0; i < mr; i++)
                FN(txg_thin_add)(sum + i * WIDTH, a[i * g->a_rs + k * g->a_ks], b, w);
        for (int i = 0; i < mr; i++) FN(txg_thin_put)(sum + i * WIDTH, g, i, j, w);
    }
}

/* Inner axis adjacent: squares of B are transposed in registers. */
TXG_INLINE void FN(txg_thin_columns)(const int mr, const txg_block *g)
{
    const T *a = (const T *)g->a;
    T edge[(TXG_VB / sizeof(T)) * (TXG_VB / sizeof(T))] = {0};
    for (int64_t j = 0; j < g->n; j += LT) {
        const int64_t w = g->n - j < LT ? g->n - j : LT;
        const T *b = (const T *)g->b + j * g->b_cs;
        ptrdiff_t step = g->b_cs * (ptrdiff_t)sizeof(T);
        V acc[TXG_THIN];
        TXG_UNROLL
        for (int i = 0; i < mr; i++) acc[i] = (V){0};
        int64_t k = 0;
        for (; k + LT <= g->kc; k += LT) {
            TXG_UV r[TXG_VB / sizeof(T)];
            if (w == LT) {
                TXG_TR(r, b + k, step);
            } else {
                for (int l = 0; l < w; l++) memcpy(edge + l * LT, b + l * g->b_cs + k, TXG_VB);
                TXG_TR(r, edge, TXG_VB);
            }
            TXG_UNROLL
            for (int l = 0; l < LT; l++) {
                TXG_UNROLL
                for (int i = 0; i < mr; i++) acc[i] = FMA(a[i * g->a_rs + (k + l) * g->a_ks], (V)r[l], acc[i]);
            }
        }
        for (; k < g->kc; k++) {
            for (int l = 0; l < w; l++) edge[l] = b[l * g->b_cs + k];
            const V x = (V)*(const M *)edge;
            TXG_UNROLL
            for (int i = 0; i < mr; i++) acc[i] = FMA(a[i * g->a_rs + k * g->a_ks], x, acc[i]);
        }
        TXG_UNROLL
        for (int i = 0; i < mr; i++) {
            T sum[TXG_VB / sizeof(T)];
            *(M *)sum = (M)acc[i];
            FN(txg_thin_put)(sum, g, i, j, w);
        }
    }
}

TXG_HOT void FN(txg_thin)(const txg_block *g)
{
    if (g->b_cs == 1) {
        switch (g->m) {
        case 1: FN(txg_thin_rows)(1, g); break;
        case 2: FN(txg_thin_rows)(2, g); break;
        case 3: FN(txg_thin_rows)(3, g); break;
        default: FN(txg_thin_rows)(4, g);
        }
    } else {
        switch (g->m) {
        case 1: FN(txg_thin_columns)(1, g); break;
        case 2: FN(txg_thin_columns)(2, g); break;
        case 3: FN(txg_thin_columns)(3, g); break;
        default: FN(txg_thin_columns)(4, g);
        }
    }
}

#undef FN
#undef T
#undef V
#undef M
#undef FMA
#undef LT
#undef WIDTH
#undef GROUP
#undef TXG_T
#undef TXG_TN
#undef TXG_UV
#undef TXG_TR
