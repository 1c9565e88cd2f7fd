/* Matrix products against a plain loop that spells out the promised order of operations.
 * Built as a program (random cases, for the sanitizers) and as a library for test_gemm_c.py. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "gemm_kernels.h"
#include "gemm.h"

#if TXG_VB > 16 || defined(__aarch64__)
#define FMA_F32(a, b, c) fmaf(a, b, c)
#define FMA_F64(a, b, c) fma(a, b, c)
#else
#define FMA_F32(a, b, c) ((c) + (a) * (b))
#define FMA_F64(a, b, c) ((c) + (a) * (b))
#endif
#define MUL(a, b, c) ((c) + (a) * (b))
#define SAME(x) (x)

/* Element (i, j) of one product, before bias and the old C. */
#define CHAIN(name, S, T, LOAD, FMA)                                                                         \
    static T chain_##name(const S *a, int64_t as, const S *b, int64_t bs, int64_t k)                         \
    {                                                                                                        \
        T sum = 0;                                                                                           \
        for (int64_t k0 = 0, run = txg_run_length(k); k0 < k; k0 += run) {                                   \
            T part = 0;                                                                                      \
            for (int64_t p = k0; p < k && p < k0 + run; p++)                                                 \
                part = (T)FMA(LOAD(a[p * as]), LOAD(b[p * bs]), part);                                       \
            sum = k0 ? (T)(sum + part) : part;                                                               \
        }                                                                                                    \
        return sum;                                                                                          \
    }

static float bf16(uint16_t h) { return txg_float((uint32_t)h << 16); }
static float truth(uint8_t x) { return x != 0; }
static float any(float count) { return count != 0; }

CHAIN(f32, float, float, SAME, FMA_F32)
CHAIN(f64, double, double, SAME, FMA_F64)
CHAIN(f16, uint16_t, float, txg_half_to_float, FMA_F32)
CHAIN(bf16, uint16_t, float, bf16, FMA_F32)
CHAIN(bool, uint8_t, float, truth, FMA_F32)
CHAIN(u8, uint8_t, uint8_t, SAME, MUL)
CHAIN(u16, uint16_t, uint16_t, SAME, (uint16_t)MUL)
CHAIN(u32, uint32_t, uint32_t, SAME, MUL)
CHAIN(u64, uint64_t, uint64_t, SAME, MUL)

#define COMPLEX_CHAIN(name, T, FMA)                                                                          \
    static void chain_##name(T *out, const T *a, int64_t as, const T *b, int64_t bs, int64_t k, int conj)    \
    {                                                                                                        \
        const T ca = conj & TX_GEMM_CONJ_A ? -1 : 1, cb = conj & TX_GEMM_CONJ_B ? -1 : 1;                    \
        for (int64_t k0 = 0, run = txg_run_length(k); k0 < k; k0 += run) {                                   \
            T rr = 0, ri = 0, ir = 0, ii = 0;                                                                \
            for (int64_t p = k0; p < k && p < k0 + run; p++) {                                               \
                const T *x = a + 2 * p * as, *y = b + 2 * p * bs;                                            \
                rr = FMA(x[0], y[0], rr);                                                                    \
                ri = FMA(x[0], cb * y[1], ri);                                                               \
                ir = FMA(ca * x[1], y[0], ir);                                                               \
                ii = FMA(ca * x[1], cb * y[1], ii);                                                          \
            }                                                                                                \
            out[0] = k0 ? out[0] + (rr - ii) : rr - ii;                                                      \
            out[1] = k0 ? out[1] + (ri + ir) : ri + ir;                                                      \
        }                                                                                                    \
    }
COMPLEX_CHAIN(c64, float, FMA_F32)
COMPLEX_CHAIN(c128, double, FMA_F64)

static int64_t offset(const int64_t *off, int64_t stride, int64_t g) { return off ? off[g] : stride * g; }

/* m or n must be above 1 (dot products have another order), except for integers. */
void t_reference(const tx_gemm_args *g)
{
    const int dt = g->dtype;
    for (int64_t q = 0; q < g->batch; q++)
        for (int64_t i = 0; i < g->m; i++)
            for (int64_t j = 0; j < g->n; j++) {
                const int64_t a = offset(g->a_boff, g->a_bs, q) + i * g->a_rs, b = offset(g->b_boff, g->b_bs, q) + j * g->b_cs;
                const int64_t c = offset(g->c_boff, g->c_bs, q) + i * g->c_rs + j * g->c_cs, k = g->k;
                const int64_t as = g->a_cs, bs = g->b_rs;
                const int more = g->flags & TX_GEMM_ACCUMULATE, conj = g->flags;
#define PUT(S, T, name, LOAD, STORE) {                                                                       \
        const S *pa = (const S *)g->a, *pb = (const S *)g->b, *bias = (const S *)g->bias;                    \
        S *pc = (S *)g->c + c, x = (S)STORE(chain_##name(pa + a, as, pb + b, bs, k));                        \
        if (bias) x = (S)STORE(LOAD(x) + LOAD(bias[j]));                                                     \
        if (more) x = (S)STORE(LOAD(*pc) + LOAD(x));                                                         \
        *pc = x;                                                                                             \
        break;                                                                                               \
    }
#define PUT_COMPLEX(T, name) {                                                                               \
        const T *pa = (const T *)g->a, *pb = (const T *)g->b, *bias = (const T *)g->bias;                    \
        T *pc = (T *)g->c + 2 * c, x[2] = {0, 0};                                                            \
        chain_##name(x, pa + 2 * a, as, pb + 2 * b, bs, k, conj);                                            \
        for (int e = 0; e < 2; e++) {                                                                        \
            if (bias) x[e] += bias[2 * j + e];                                                               \
            pc[e] = more ? pc[e] + x[e] : x[e];                                                              \
        }                                                                                                    \
        break;                                                                                               \
    }
                switch (dt) {
                case TX_BOOL: PUT(uint8_t, float, bool, truth, any)
                case TX_I8: case TX_U8: PUT(uint8_t, uint8_t, u8, SAME, SAME)
                case TX_I16: case TX_U16: PUT(uint16_t, uint16_t, u16, SAME, SAME)
                case TX_I32: case TX_U32: PUT(uint32_t, uint32_t, u32, SAME, SAME)
                case TX_I64: case TX_U64: PUT(uint64_t, uint64_t, u64, SAME, SAME)
                case TX_F16: PUT(uint16_t, float, f16, txg_half_to_float, txg_float_to_half)
                case TX_BF16: PUT(uint16_t, float, bf16, bf16, txg_float_to_bf16)
                case TX_F32: PUT(float, float, f32, SAME, SAME)
                case TX_F64: PUT(double, double, f64, SAME, SAME)
                case TX_C64: PUT_COMPLEX(float, c64)
                case TX_C128: PUT_COMPLEX(double, c128)
                }
            }
}

int t_gemm(const tx_gemm_args *g) { return tx_gemm(g, tx_gemm_table()); }
void t_threads(int n) { tx_set_num_threads(n); }
void t_cancel(int on) { tx_cancel_set(on); }
void t_fail_after(int64_t n) { if (n >= 0) tx_empty_cache(); tx_debug_fail_after(n); }
int t_runs(int64_t k) { return (int)((k + txg_run_length(k) - 1) / txg_run_length(k)); }
const char *t_blas_name(void) { return tx_blas_name(); }
int64_t t_scratch(void) { tx_mem_stats s; tx_get_stats(&s); return s.scratch; }

/* Best time in us of n calls. */
double t_time(const tx_gemm_args *g, int n)
{
    double best = 1e300;
    for (int i = 0; i < n; i++) {
        int inner = 1;
        double t = tx_now_us();
        tx_gemm(g, tx_gemm_table());
        t = tx_now_us() - t;
        if (t < 5) {
            inner = 50;
            t = tx_now_us();
            for (int r = 0; r < inner; r++) tx_gemm(g, tx_gemm_table());
            t = (tx_now_us() - t) / inner;
        }
        if (t < best) best = t;
    }
    return best;
}

/* ---- the program ---- */

static const int8_t item_size[TX_NDT] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16};
static uint64_t seed = 1;
static int64_t draw(int64_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((seed >> 33) % (uint64_t)n);
}

/* A buffer of exactly the bytes that the strides reach, so that a sanitizer sees every other access. */
typedef struct matrix { char *base, *first; int64_t rs, cs, bs; size_t bytes; } matrix;

static void fill(matrix *x, int dt)
{
    for (size_t i = 0; i < x->bytes; i++) x->base[i] = (char)draw(256);
    const size_t n = x->bytes / (size_t)(int64_t)item_size[dt];
    for (size_t i = 0; i < n; i++) {
        const float f = (float)(draw(2001) - 1000) / 256.0f;
        if (dt == TX_F16) ((uint16_t *)x->base)[i] = txg_float_to_half(f);
        if (dt == TX_BF16) ((uint16_t *)x->base)[i] = txg_float_to_bf16(f);
        if (dt == TX_F32) ((float *)x->base)[i] = f * 1.1f;
        if (dt == TX_F64) ((double *)x->base)[i] = (double)f * 1.1;
        if (dt == TX_C64) ((float *)x->base)[2 * i] = f * 1.1f, ((float *)x->base)[2 * i + 1] = (float)draw(99) / 7;
        if (dt == TX_C128) ((double *)x->base)[2 * i] = f * 1.1, ((double *)x->base)[2 * i + 1] = (double)draw(99) / 7;
    }
}

static matrix make(int dt, int64_t batch, int64_t rows, int64_t cols, int out)
{
    matrix x = {0};
    const int64_t es = (int64_t)item_size[dt], gap = draw(4) == 0 ? 1 + draw(3) : 1;
    const int64_t zero = out ? 9 : draw(8);
    if (draw(2)) { x.cs = gap; x.rs = (cols + draw(2)) * gap; x.bs = (rows + draw(2)) * x.rs; }
    else { x.rs = gap; x.cs = (rows + draw(2)) * gap; x.bs = (cols + draw(2)) * x.cs; }
    if (zero == 0) x.rs = 0;
    if (zero == 1) x.cs = 0;
    if (zero == 2) x.bs = 0;
    if (draw(4) == 0) x.rs = -x.rs;
    if (draw(4) == 0) x.cs = -x.cs;
    if (draw(4) == 0) x.bs = -x.bs;
    int64_t lo = 0, hi = 0;
    const int64_t span[3] = {(rows - 1) * x.rs, (cols - 1) * x.cs, (batch - 1) * x.bs};
    for (int d = 0; d < 3; d++) { if (span[d] < 0) lo += span[d]; else hi += span[d]; }
    x.bytes = rows && cols && batch ? (size_t)((hi - lo + 1) * es) : 0;
    x.base = (char *)malloc(x.bytes ? x.bytes : 1);
    x.first = x.bytes ? x.base - lo * es : x.base;
    fill(&x, dt);
    return x;
}

static int same_bits(const char *x, const char *y, size_t n, int dt)
{
    (void)dt;
    return memcmp(x, y, n) == 0;
}

static int random_cases(int count, int big)
{
    for (int t = 0; t < count; t++) {
        const uint64_t first = seed;
        const int dt = (int)draw(TX_NDT), small = draw(3) != 0;
        const int64_t batch = draw(3) ? 1 : draw(5), m = draw(small ? 20 : big), n = draw(small ? 20 : big);
        const int64_t k = draw(m < 20 && n < 20 && draw(24) == 0 ? 20000 : draw(4) ? big : 600);
        matrix a = make(dt, batch, m, k, 0), b = make(dt, batch, k, n, 0), c = make(dt, batch, m, n, 1);
        matrix bias = make(dt, 1, 1, n, 1);
        if (bias.cs != 1) bias.first = bias.base;
        if (bias.bytes < (size_t)(n * (int64_t)item_size[dt])) {
            free(bias.base);
            bias.bytes = (size_t)(n * (int64_t)item_size[dt]);
            bias.first = bias.base = (char *)malloc(bias.bytes + 1);
            fill(&bias, dt);
        }
        tx_gemm_args g = {.dtype = dt, .batch = batch, .m = m, .n = n, .k = k, .a = a.first, .b = b.first, .c = c.first,
                          .a_rs = a.rs, .a_cs = a.cs, .a_bs = a.bs, .b_rs = b.rs, .b_cs = b.cs, .b_bs = b.bs,
                          .c_rs = c.rs, .c_cs = c.cs, .c_bs = c.bs};
        g.flags = (int32_t)draw(8);
        if (draw(3) == 0) g.bias = bias.first;
        char *before = (char *)malloc(c.bytes + 1), *want = (char *)malloc(c.bytes + 1);
        memcpy(before, c.base, c.bytes);
        t_reference(&g);
        memcpy(want, c.base, c.bytes);
        for (int threads = 1; threads <= 3; threads++) {
            memcpy(c.base, before, c.bytes);
            tx_set_num_threads(threads);
            const int r = t_gemm(&g);
            const int dot = m == 1 && n == 1 && dt >= TX_F16;
            if (r || (!dot && !same_bits(c.base, want, c.bytes, dt))) {
                size_t at = 0;
                while (at < c.bytes && c.base[at] == want[at]) at++;
                fprintf(stderr, "case %d seed %llu: dtype %d batch %lld m %lld n %lld k %lld flags %d bias %d threads %d: returned %d, "
                       "differs at byte %zu of %zu (strides a %lld %lld b %lld %lld c %lld %lld)\n",
                       t, (unsigned long long)first, dt, (long long)batch, (long long)m, (long long)n, (long long)k,
                       g.flags, g.bias != NULL, threads, r, at, c.bytes, (long long)a.rs, (long long)a.cs,
                       (long long)b.rs, (long long)b.cs, (long long)c.rs, (long long)c.cs);
                return 1;
            }
        }
        free(before); free(want); free(a.base); free(b.base); free(c.base); free(bias.base);
    }
    tx_pool_shutdown();
    if (t_scratch() != 0) {
        fprintf(stderr, "%lld bytes of scratch left\n", (long long)t_scratch());
        return 1;
    }
    return 0;
}

/* 0 if `count` random products with sides up to `big` are right to the last bit. */
int t_random(int count, int big, uint64_t first)
{
    seed = first;
    return random_cases(count, big);
}

int main(int argc, char **argv)
{
    const int count = argc > 1 ? atoi(argv[1]) : 300, big = argc > 2 ? atoi(argv[2]) : 70;
    return t_random(count, big, argc > 3 ? strtoull(argv[3], NULL, 10) : 1);
}
