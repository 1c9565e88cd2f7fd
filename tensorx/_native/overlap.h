/* Exact questions about strided views of one storage: do two of them share a byte, does one
 * address an element twice. Both are bounded integer problems; the search is cut short by
 * intervals and greatest common divisors, and gives up (answer: yes) after a fixed effort. */
#ifndef TX_OVERLAP_H
#define TX_OVERLAP_H

#include "types.h"

typedef struct tx_term {
    int64_t stride; /* > 0, bytes */
    int64_t count;  /* values 0 .. count */
} tx_term;

static int tx_term_cmp(const void *a, const void *b) {
    int64_t x = ((const tx_term *)a)->stride, y = ((const tx_term *)b)->stride;
    return x < y ? 1 : x > y ? -1 : 0;
}

static int64_t tx_gcd(int64_t a, int64_t b) {
    while (b) { int64_t t = a % b; a = b; b = t; }
    return a;
}

/* Is there x with sum stride[i] * x[i] == target, 0 <= x[i] <= count[i]?  1, 0, or -1: gave up. */
static int tx_solve(const tx_term *t, const int64_t *reach, const int64_t *gcd, int n, int64_t target, int64_t *budget) {
    if (target < 0 || target > reach[0]) return 0;
    if (target == 0) return 1;
    if (n == 0) return 0;
    if (target % gcd[0]) return 0;
    if (--*budget < 0) return -1;
    int64_t hi = target / t[0].stride;
    if (hi > t[0].count) hi = t[0].count;
    int64_t rest = n > 1 ? reach[1] : 0;
    int64_t lo = target - rest <= 0 ? 0 : (target - rest + t[0].stride - 1) / t[0].stride;
    for (int64_t x = hi; x >= lo; x--) {
        int r = n > 1 ? tx_solve(t + 1, reach + 1, gcd + 1, n - 1, target - x * t[0].stride, budget)
                      : (target == x * t[0].stride);
        if (r) return r;
        if (--*budget < 0) return -1;
    }
    return 0;
}

static int tx_solve_terms(tx_term *t, int n, int64_t target) {
    int64_t reach[4 * TX_MAXDIM + 4], gcd[4 * TX_MAXDIM + 4], budget = 200000;
    qsort(t, (size_t)n, sizeof *t, tx_term_cmp);
    reach[n] = 0;
    gcd[n] = 0;
    for (int i = n - 1; i >= 0; i--) {
        reach[i] = reach[i + 1] + t[i].stride * t[i].count;
        gcd[i] = tx_gcd(t[i].stride, gcd[i + 1]);
    }
    if (n == 0) return target == 0;
    return tx_solve(t, reach, gcd, n, target, &budget) != 0;
}

/* Do two views (shape, strides and offset in elements) of one storage share a byte? */
static int tx_views_overlap(int nda, const int64_t *sa, const int64_t *ta, int64_t oa, int64_t ia,
                            int ndb, const int64_t *sb, const int64_t *tb, int64_t ob, int64_t ib) {
    int64_t alo, ahi, blo, bhi;
    if (tx_numel(nda, sa) == 0 || tx_numel(ndb, sb) == 0) return 0;
    tx_extent(nda, sa, ta, oa, ia, &alo, &ahi);
    tx_extent(ndb, sb, tb, ob, ib, &blo, &bhi);
    if (ahi <= blo || bhi <= alo) return 0;
    /* address a = alo + sum |t| x + byte; a == b  <=>  sum over both = bhi - 1 - alo after
     * counting b downwards from its highest byte */
    tx_term t[4 * TX_MAXDIM + 4];
    int n = 0;
    for (int i = 0; i < nda; i++)
        if (sa[i] > 1 && ta[i]) { t[n].stride = llabs(ta[i]) * ia; t[n++].count = sa[i] - 1; }
    for (int i = 0; i < ndb; i++)
        if (sb[i] > 1 && tb[i]) { t[n].stride = llabs(tb[i]) * ib; t[n++].count = sb[i] - 1; }
    if (ia > 1) { t[n].stride = 1; t[n++].count = ia - 1; }
    if (ib > 1) { t[n].stride = 1; t[n++].count = ib - 1; }
    return tx_solve_terms(t, n, bhi - 1 - alo);
}

/* Does a view reach one element by two different indices? */
static int tx_view_overlaps_itself(int nd, const int64_t *shape, const int64_t *strides) {
    tx_term t[TX_MAXDIM];
    int n = 0;
    for (int i = 0; i < nd; i++) {
        if (shape[i] == 0) return 0;
        if (shape[i] > 1) {
            if (strides[i] == 0) return 1;
            t[n].stride = llabs(strides[i]);
            t[n++].count = shape[i] - 1;
        }
    }
    qsort(t, (size_t)n, sizeof *t, tx_term_cmp);
    int64_t span = 0;
    int simple = 1;
    for (int i = n - 1; i >= 0; i--) {
        if (t[i].stride <= span) { simple = 0; break; }
        span += t[i].stride * t[i].count;
    }
    if (simple) return 0;
    /* a nonzero difference d[i] in [-count, count] with sum stride*d == 0: shift by count and
     * ask for every first nonzero position */
    for (int first = 0; first < n; first++) {
        for (int64_t d = 1; d <= t[first].count; d++) {
            tx_term u[TX_MAXDIM];
            int m = 0;
            int64_t target = -(t[first].stride * d);
            for (int i = first + 1; i < n; i++) {
                u[m].stride = t[i].stride;
                u[m++].count = 2 * t[i].count;
                target += t[i].stride * t[i].count;
            }
            if (target < 0) break; /* larger d only sink it further */
            if (tx_solve_terms(u, m, target)) return 1;
            if (d > 4096) return 1;
        }
    }
    return 0;
}

#endif
