/* Random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers, as easy as 1, 2, 3; 2011).
 *
 * Word w of a stream is word w % 4 of the block with counter (w / 4, stream) under the key seed, so every element
 * can be made by itself: neither the number of threads nor the device shows in the numbers, and the Metal kernels
 * make the same ones. An element takes a fixed number of words; what has to reject draws (random_draws.h) counts
 * its attempts in the upper bits of the block number of its own element.
 */
#ifndef TX_RANDOM_H
#define TX_RANDOM_H

#include "pool.h"
#include "types.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

enum {
    TX_RAND_BITS, TX_RAND_UNIFORM, TX_RAND_NORMAL, TX_RAND_BERNOULLI, TX_RAND_INTEGERS,
    TX_RAND_GAMMA, TX_RAND_POISSON, TX_RAND_BINOMIAL
};

typedef struct tx_random_job {
    uint64_t seed, stream, first;       /* first: number of the first word */
    int64_t n;
    int32_t kind, dtype;
    char *out;                          /* dense */
    double a, b;                        /* uniform: a + b u, normal: a + b z, bernoulli: probability a */
    double top;                         /* uniform: the largest value below the upper end */
    uint64_t low, range;                /* integers; range 0 stands for 2^64 */
    tx_scalar value;                    /* bernoulli: what stands for true */
    const double *p, *q;                /* parameters of the distributions with rejection, with their steps */
    int64_t pstep, qstep;
    tx_ew_fn log, sqrt, sin, cos;       /* of the dtype that is computed in */
    tx_cast_fn narrow;                  /* float32 to a half */
    int cancelled;
} tx_random_job;

/* The core is built with -O2, which leaves most loops scalar in older versions of gcc. */
#if defined(__GNUC__) && !defined(__clang__)
#define TX_RAND_LOOPS __attribute__((optimize("O3")))
#else
#define TX_RAND_LOOPS
#endif

#define TX_RAND_PART 512                /* elements made at a time */
#define TX_RAND_TASK 16384              /* elements per task */

static inline void tx_philox_block(uint32_t *w, uint64_t seed, uint64_t stream, uint64_t block)
{
    uint32_t c0 = (uint32_t)block, c1 = (uint32_t)(block >> 32), c2 = (uint32_t)stream, c3 = (uint32_t)(stream >> 32);
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int r = 0; r < 10; r++) {
        uint64_t p = (uint64_t)c0 * 0xD2511F53u, q = (uint64_t)c2 * 0xCD9E8D57u;
        uint32_t n0 = (uint32_t)(q >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)q;
        c3 = (uint32_t)p;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    w[0] = c0;
    w[1] = c1;
    w[2] = c2;
    w[3] = c3;
}

#if defined(__x86_64__)
#include <immintrin.h>

#define TX_PHILOX_MUL(hi, lo, c, m)                                                        \
    do {                                                                                   \
        __m256i even = _mm256_mul_epu32(c, m);                                             \
        __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(c, 32), m);                       \
        hi = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);                   \
        lo = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);                   \
    } while (0)

/* Eight blocks at a time, whose numbers agree in their upper halves. */
__attribute__((target("avx2"))) static void tx_philox_eight(uint32_t *w, uint64_t seed, uint64_t stream, uint64_t block, int64_t eights)
{
    const __m256i m0 = _mm256_set1_epi32((int)0xD2511F53u), m1 = _mm256_set1_epi32((int)0xCD9E8D57u);
    const __m256i count = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    for (int64_t i = 0; i < eights; i++, block += 8, w += 32) {
        __m256i c0 = _mm256_add_epi32(_mm256_set1_epi32((int)(uint32_t)block), count);
        __m256i c1 = _mm256_set1_epi32((int)(uint32_t)(block >> 32));
        __m256i c2 = _mm256_set1_epi32((int)(uint32_t)stream), c3 = _mm256_set1_epi32((int)(uint32_t)(stream >> 32));
        uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
        for (int r = 0; r < 10; r++) {
            __m256i ph, pl, qh, ql;
            TX_PHILOX_MUL(ph, pl, c0, m0);
            TX_PHILOX_MUL(qh, ql, c2, m1);
            c0 = _mm256_xor_si256(_mm256_xor_si256(qh, c1), _mm256_set1_epi32((int)k0));
            c2 = _mm256_xor_si256(_mm256_xor_si256(ph, c3), _mm256_set1_epi32((int)k1));
            c1 = ql;
            c3 = pl;
            k0 += 0x9E3779B9u;
            k1 += 0xBB67AE85u;
        }
        __m256i a = _mm256_unpacklo_epi32(c0, c1), b = _mm256_unpackhi_epi32(c0, c1);
        __m256i c = _mm256_unpacklo_epi32(c2, c3), d = _mm256_unpackhi_epi32(c2, c3);
        __m256i e = _mm256_unpacklo_epi64(a, c), f = _mm256_unpackhi_epi64(a, c);     /* blocks 0, 4 and 1, 5 */
        __m256i g = _mm256_unpacklo_epi64(b, d), h = _mm256_unpackhi_epi64(b, d);     /* blocks 2, 6 and 3, 7 */
        _mm256_storeu_si256((__m256i *)w, _mm256_permute2x128_si256(e, f, 0x20));
        _mm256_storeu_si256((__m256i *)(w + 8), _mm256_permute2x128_si256(g, h, 0x20));
        _mm256_storeu_si256((__m256i *)(w + 16), _mm256_permute2x128_si256(e, f, 0x31));
        _mm256_storeu_si256((__m256i *)(w + 24), _mm256_permute2x128_si256(g, h, 0x31));
    }
}
#endif

/* The words of consecutive blocks. */
static void tx_philox(uint32_t *w, uint64_t seed, uint64_t stream, uint64_t block, int64_t blocks)
{
#if defined(__x86_64__)
    if (blocks >= 8 && __builtin_cpu_supports("avx2")) {
        uint64_t room = 0x100000000u - (block & 0xffffffffu);
        int64_t eights = (uint64_t)blocks < room ? blocks / 8 : (int64_t)(room / 8);
        tx_philox_eight(w, seed, stream, block, eights);
        w += 32 * eights;
        block += 8 * (uint64_t)eights;
        blocks -= 8 * eights;
    }
#endif
    for (; blocks > 0; blocks--, block++, w += 4) tx_philox_block(w, seed, stream, block);
}

/* Words that one element takes. */
static inline int tx_random_words(int kind, int dtype, uint64_t range)
{
    switch (kind) {
    case TX_RAND_BITS: return tx_item_size[dtype] == 8 ? 2 : 1;
    case TX_RAND_UNIFORM:
    case TX_RAND_NORMAL: return dtype == TX_F64 ? 2 : 1;
    case TX_RAND_INTEGERS: return range != 0 && range <= 0x100000000u ? 2 : 4;
    }
    return 1;
}

static inline uint64_t tx_rand_u64(const uint32_t *w) { return w[0] | (uint64_t)w[1] << 32; }
static inline float tx_rand_f32(uint32_t w) { return (float)(int32_t)(w >> 8) * 0x1p-24f; }
/* The upper 53 of 64 bits times 2^-53, exactly; in halves, because there are vector conversions of 32-bit integers only. */
static inline double tx_rand_f64(const uint32_t *w)
{
    double high = (double)(int32_t)(w[1] ^ 0x80000000u) + 0x1p31, low = (double)(int32_t)(w[0] >> 11);
    return high * 0x1p-32 + low * 0x1p-53;
}

/* floor(x range) for the 64-bit fraction x and range up to 2^32: off by less than range 2^-64 in probability. */
static inline uint64_t tx_rand_below(uint32_t lo, uint32_t hi, uint64_t range) { return (hi * range + (lo * range >> 32)) >> 32; }

static inline uint64_t tx_mul_high(uint64_t a, uint64_t b)
{
    uint64_t al = (uint32_t)a, ah = a >> 32, bl = (uint32_t)b, bh = b >> 32;
    uint64_t mid = ah * bl + (al * bl >> 32), low = al * bh + (uint32_t)mid;
    return ah * bh + (mid >> 32) + (low >> 32);
}

/* The same for the 128-bit fraction and any range. */
static inline uint64_t tx_rand_below_wide(const uint32_t *w, uint64_t range)
{
    uint64_t lo = tx_rand_u64(w), hi = tx_rand_u64(w + 2);
    if (range == 0) return hi;
    uint64_t sum = hi * range + tx_mul_high(lo, range);
    return tx_mul_high(hi, range) + (sum < hi * range);
}

/* ---- one part: n elements from their words ------------------------------------------------ */

TX_RAND_LOOPS static void tx_random_uniform(const tx_random_job *j, char *out, const uint32_t *w, int64_t n)
{
    if (j->dtype == TX_F64) {
        double *y = (double *)out, a = j->a, b = j->b, top = j->top;
        for (int64_t i = 0; i < n; i++) {
            double v = tx_rand_f64(w + 2 * i) * b + a;
            y[i] = v > top ? top : v;
        }
        return;
    }
    float tmp[TX_RAND_PART], a = (float)j->a, b = (float)j->b, top = (float)j->top;
    float *y = j->dtype == TX_F32 ? (float *)out : tmp;
    /* halves are cut, not rounded: 1 must not come out */
    uint32_t keep = j->dtype == TX_F32 ? 0xffffff00u : j->dtype == TX_F16 ? 0xffe00000u : 0xff000000u;
    for (int64_t i = 0; i < n; i++) {
        float v = tx_rand_f32(w[i] & keep) * b + a;
        y[i] = v > top ? top : v;
    }
    if (j->dtype != TX_F32) j->narrow(out, tmp, n);
}

/* Pairs by Box and Muller: radius from one uniform, which is never 0, angle from the next. */
TX_RAND_LOOPS static void tx_random_normal(const tx_random_job *j, char *out, const uint32_t *w, int64_t n)
{
    int64_t pairs = (n + 1) / 2;
    if (j->dtype == TX_F64) {
        double r[TX_RAND_PART / 2], t[TX_RAND_PART / 2], s[TX_RAND_PART / 2], a = j->a, b = j->b;
        const void *pr = r, *pt = t;
        for (int64_t i = 0; i < pairs; i++) {
            r[i] = tx_rand_f64(w + 4 * i) + 0x1p-53;
            t[i] = tx_rand_f64(w + 4 * i + 2) * 6.283185307179586;
        }
        j->log(r, &pr, pairs, 0);
        for (int64_t i = 0; i < pairs; i++) r[i] = r[i] * -2.0 + 0.0;
        j->sqrt(r, &pr, pairs, 0);
        j->sin(s, &pt, pairs, 0);
        j->cos(t, &pt, pairs, 0);
        double *y = (double *)out;
        for (int64_t i = 0; i < n / 2; i++) {
            y[2 * i] = r[i] * t[i] * b + a;
            y[2 * i + 1] = r[i] * s[i] * b + a;
        }
        if (n & 1) y[n - 1] = r[n / 2] * t[n / 2] * b + a;
        return;
    }
    float r[TX_RAND_PART / 2], t[TX_RAND_PART / 2], s[TX_RAND_PART / 2], tmp[TX_RAND_PART], a = (float)j->a, b = (float)j->b;
    const void *pr = r, *pt = t;
    for (int64_t i = 0; i < pairs; i++) {
        r[i] = (float)(int32_t)(w[2 * i] >> 1) * 0x1p-31f + 0x1p-32f;
        t[i] = tx_rand_f32(w[2 * i + 1]) * 6.2831853f;
    }
    j->log(r, &pr, pairs, 0);
    for (int64_t i = 0; i < pairs; i++) r[i] = r[i] * -2.0f + 0.0f;
    j->sqrt(r, &pr, pairs, 0);
    j->sin(s, &pt, pairs, 0);
    j->cos(t, &pt, pairs, 0);
    float *y = j->dtype == TX_F32 ? (float *)out : tmp;
    for (int64_t i = 0; i < n / 2; i++) {
        y[2 * i] = r[i] * t[i] * b + a;
        y[2 * i + 1] = r[i] * s[i] * b + a;
    }
    if (n & 1) y[n - 1] = r[n / 2] * t[n / 2] * b + a;
    if (j->dtype != TX_F32) j->narrow(out, tmp, n);
}

#define TX_RAND_EACH(type, expression)                        \
    for (int64_t i = 0; i < n; i++) ((type *)out)[i] = (type)(expression)

TX_RAND_LOOPS static void tx_random_bernoulli(const tx_random_job *j, char *out, const uint32_t *w, int64_t n)
{
    float p = (float)j->a;
    const tx_scalar v = j->value;
    switch (tx_item_size[j->dtype]) {
    case 1: TX_RAND_EACH(uint8_t, tx_rand_f32(w[i]) < p ? v.u8 : 0); break;
    case 2: TX_RAND_EACH(uint16_t, tx_rand_f32(w[i]) < p ? v.u16 : 0); break;
    case 4: TX_RAND_EACH(uint32_t, tx_rand_f32(w[i]) < p ? v.u32 : 0); break;
    case 8: TX_RAND_EACH(uint64_t, tx_rand_f32(w[i]) < p ? v.u : 0); break;
    default:
        for (int64_t i = 0; i < n; i++) {
            if (tx_rand_f32(w[i]) < p) memcpy(out + 16 * i, v.raw, 16);
            else memset(out + 16 * i, 0, 16);
        }
    }
}

TX_RAND_LOOPS static void tx_random_integers(const tx_random_job *j, char *out, const uint32_t *w, int64_t n)
{
    uint64_t range = j->range, low = j->low;
    if (range != 0 && range <= 0x100000000u) {
        switch (tx_item_size[j->dtype]) {
        case 1: TX_RAND_EACH(uint8_t, low + tx_rand_below(w[2 * i], w[2 * i + 1], range)); break;
        case 2: TX_RAND_EACH(uint16_t, low + tx_rand_below(w[2 * i], w[2 * i + 1], range)); break;
        case 4: TX_RAND_EACH(uint32_t, low + tx_rand_below(w[2 * i], w[2 * i + 1], range)); break;
        default: TX_RAND_EACH(uint64_t, low + tx_rand_below(w[2 * i], w[2 * i + 1], range));
        }
        return;
    }
    TX_RAND_EACH(uint64_t, low + tx_rand_below_wide(w + 4 * i, range));
}

TX_RAND_LOOPS static void tx_random_bits(const tx_random_job *j, char *out, const uint32_t *w, int64_t n)
{
    switch (tx_item_size[j->dtype]) {
    case 1: TX_RAND_EACH(uint8_t, w[i]); break;
    case 2: TX_RAND_EACH(uint16_t, w[i]); break;
    case 4: TX_RAND_EACH(uint32_t, w[i]); break;
    default: TX_RAND_EACH(uint64_t, tx_rand_u64(w + 2 * i));
    }
}

#include "random_draws.h"

static void tx_random_task(void *ctx, int64_t task)
{
    tx_random_job *j = (tx_random_job *)ctx;
    if (tx_cancel_requested() || tx_poll_stop()) __atomic_store_n(&j->cancelled, 1, __ATOMIC_RELAXED);
    if (__atomic_load_n(&j->cancelled, __ATOMIC_RELAXED)) return;
    int64_t lo = task * TX_RAND_TASK, hi = lo + TX_RAND_TASK < j->n ? lo + TX_RAND_TASK : j->n;
    if (j->kind >= TX_RAND_GAMMA) {
        tx_random_draws(j, lo, hi);
        return;
    }
    int words = tx_random_words(j->kind, j->dtype, j->range);
    uint32_t w[4 * TX_RAND_PART + 8];
    for (; lo < hi; lo += TX_RAND_PART) {
        int64_t n = hi - lo < TX_RAND_PART ? hi - lo : TX_RAND_PART;
        uint64_t first = j->first + (uint64_t)lo * (uint64_t)words;
        int64_t skip = (int64_t)(first & 3), need = skip + words * (n + (n & 1));
        tx_philox(w, j->seed, j->stream, first >> 2, (need + 3) / 4);
        char *out = j->out + lo * tx_item_size[j->dtype];
        switch (j->kind) {
        case TX_RAND_BITS: tx_random_bits(j, out, w + skip, n); break;
        case TX_RAND_UNIFORM: tx_random_uniform(j, out, w + skip, n); break;
        case TX_RAND_NORMAL: tx_random_normal(j, out, w + skip, n); break;
        case TX_RAND_BERNOULLI: tx_random_bernoulli(j, out, w + skip, n); break;
        case TX_RAND_INTEGERS: tx_random_integers(j, out, w + skip, n); break;
        }
    }
}

static inline double tx_random_ns(const tx_random_job *j)
{
    return (double)j->n * (j->kind >= TX_RAND_GAMMA ? 150.0 : j->kind == TX_RAND_NORMAL ? 5.0 : 2.0);
}

static void tx_random_run(tx_random_job *j)
{
    tx_parallel_for((j->n + TX_RAND_TASK - 1) / TX_RAND_TASK, tx_random_task, j, tx_random_ns(j) * 1e-3);
}

/* ---- shuffles (Fisher, Yates; Durstenfeld 1964), two words per step ------------------------- */

#define TX_RAND_SHUFFLE(name, type)                                                                        \
    static int name(type *y, int64_t n, uint64_t seed, uint64_t stream, uint64_t first)                    \
    {                                                                                                      \
        uint32_t w[512];                                                                                   \
        int64_t at[256];                                                                                   \
        for (int64_t i = n - 1; i > 0;) {                                                                  \
            int64_t m = i < 256 ? i : 256;                                                                 \
            if (tx_cancel_requested() || tx_poll_stop()) return 0;                                         \
            tx_philox(w, seed, stream, first >> 2, 128);                                                   \
            first += 512;                                                                                  \
            for (int64_t k = 0; k < m; k++) {                                                              \
                at[k] = (int64_t)tx_mul_high(tx_rand_u64(w + 2 * k), (uint64_t)(i - k) + 1);               \
                __builtin_prefetch(y + at[k], 1);                                                          \
            }                                                                                              \
            for (int64_t k = 0; k < m; k++, i--) {                                                         \
                type t = y[i];                                                                             \
                y[i] = y[at[k]];                                                                           \
                y[at[k]] = t;                                                                              \
            }                                                                                              \
        }                                                                                                  \
        return 1;                                                                                          \
    }

TX_RAND_SHUFFLE(tx_shuffle32, int32_t)
TX_RAND_SHUFFLE(tx_shuffle64, int64_t)

/* The numbers 0 .. n - 1 in random order. They are shuffled in four bytes each where they fit, in the upper half
 * of their place: half the memory for random access. 0: cancelled. */
static int tx_permutation(int64_t *y, int64_t n, uint64_t seed, uint64_t stream, uint64_t first)
{
    if (n >= INT32_MAX) {
        for (int64_t i = 0; i < n; i++) y[i] = i;
        return tx_shuffle64(y, n, seed, stream, first);
    }
    char *bytes = (char *)y;
    int32_t *z = (int32_t *)(bytes + 4 * n);
    for (int64_t i = 0; i < n; i++) {
        if (!(i & 0xfffff) && (tx_cancel_requested() || tx_poll_stop())) return 0;
        z[i] = (int32_t)i;
    }
    if (!tx_shuffle32(z, n, seed, stream, first)) return 0;
    for (int64_t i = 0; i < n; i++) {
        if (!(i & 0xfffff) && (tx_cancel_requested() || tx_poll_stop())) return 0;
        int32_t v;
        memcpy(&v, bytes + 4 * n + 4 * i, 4);
        int64_t wide = v;
        memcpy(bytes + 8 * i, &wide, 8);
    }
    return 1;
}

#endif
