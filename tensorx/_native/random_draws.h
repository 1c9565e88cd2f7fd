/* Distributions whose samplers reject: gamma, Poisson, binomial. Element e draws from blocks e, e + 2^40, e + 2 * 2^40, ...
 * of the stream, so that no element shifts the numbers of another. Included by random.h. */
#ifndef TX_RANDOM_DRAWS_H
#define TX_RANDOM_DRAWS_H

typedef struct tx_draws {
    uint64_t seed, stream, block;
    uint32_t w[4];
    int left;                            /* words not used yet */
} tx_draws;

static inline void tx_draw_block(tx_draws *d)
{
    tx_philox_block(d->w, d->seed, d->stream, d->block);
    d->block += (uint64_t)1 << 40;
}

/* Two words as a uniform number in (0, 1). */
static inline double tx_draw_pair(const uint32_t *w) { return ((double)(int64_t)(tx_rand_u64(w) >> 12) + 0.5) * 0x1p-52; }

static inline double tx_draw(tx_draws *d)
{
    if (d->left < 2) {
        tx_draw_block(d);
        d->left = 4;
    }
    d->left -= 2;
    return tx_draw_pair(d->w + d->left);
}

/* What depends on the parameters alone, computed once for a row of equal ones. */
typedef struct tx_law {
    int ready;
    double p, q;                         /* the parameters that it is made for */
    double a, b, c, vr, alpha, ratio, h, m, limit;
    int flip;
} tx_law;

static inline int tx_law_fits(const tx_law *l, double p, double q) { return l->ready && l->p == p && l->q == q; }

/* Marsaglia, Tsang: A simple method for generating gamma variables (2000). An attempt takes one block: 32 bits each for
 * the radius and the angle of a normal number, 64 for the comparison. */
static double tx_draw_gamma(tx_draws *d, tx_law *l, double shape)
{
    if (!(shape > 0)) return shape == 0 ? 0.0 : NAN;
    if (!tx_law_fits(l, shape, 0)) {
        double s = shape < 1.0 ? shape + 1.0 : shape;
        *l = (tx_law){.ready = 1, .p = shape, .q = 0, .a = s - 1.0 / 3.0};
        l->c = 1.0 / sqrt(9.0 * l->a);
    }
    double boost = shape < 1.0 ? pow(tx_draw(d), 1.0 / shape) : 1.0;
    for (;;) {
        tx_draw_block(d);
        double r = sqrt(-2.0 * log(((double)d->w[2] + 0.5) * 0x1p-32));
        double x = r * cos(((double)d->w[3] + 0.5) * (6.283185307179586 * 0x1p-32)), u = tx_draw_pair(d->w);
        double v = 1.0 + l->c * x, square = x * x;
        d->left = 0;
        if (v <= 0) continue;
        v = v * v * v;
        if (u < 1.0 - 0.0331 * square * square || log(u) < 0.5 * square + l->a * (1.0 - v + log(v))) return l->a * v * boost;
    }
}

/* log(k!) for integers k >= 0. */
static double tx_log_factorial(double k)
{
    static const double small[10] = {
        0.0, 0.0, 0.6931471805599453, 1.791759469228055, 3.1780538303479458, 4.787491742782046, 6.579251212010101,
        8.525161361065415, 10.60460290274525, 12.801827480081469
    };
    if (k < 10) return small[(int)k];
    double x = k + 1.0, z = 1.0 / (x * x);
    double tail = (1.0 / 12 - z * (1.0 / 360 - z * (1.0 / 1260 - z * (1.0 / 1680 - z * (1.0 / 1188))))) / x;
    return (x - 0.5) * log(x) - x + 0.9189385332046727 + tail;
}

/* Hoermann: The transformed rejection method for generating Poisson random variables (1993); products of uniforms for
 * small means. */
static double tx_draw_poisson(tx_draws *d, tx_law *l, double mean)
{
    if (!(mean >= 0)) return NAN;
    if (mean == 0) return 0;
    if (!tx_law_fits(l, mean, 0)) {
        *l = (tx_law){.ready = 1, .p = mean, .q = 0};
        if (mean < 10) {
            l->limit = exp(-mean);
        } else {
            l->b = 0.931 + 2.53 * sqrt(mean);
            l->a = -0.059 + 0.02483 * l->b;
            l->alpha = log(1.1239 + 1.1328 / (l->b - 3.4));
            l->vr = 0.9277 - 3.6224 / (l->b - 2);
            l->h = log(mean);
        }
    }
    if (mean < 10) {
        double product = tx_draw(d), k = 0;
        while (product > l->limit) {
            product *= tx_draw(d);
            k += 1;
        }
        return k;
    }
    for (;;) {
        double u = tx_draw(d) - 0.5, v = tx_draw(d), us = 0.5 - fabs(u);
        double k = floor((2 * l->a / us + l->b) * u + mean + 0.43);
        if (us >= 0.07 && v <= l->vr) return k;
        if (k < 0 || (us < 0.013 && v > us)) continue;
        if (log(v) + l->alpha - log(l->a / (us * us) + l->b) <= k * l->h - mean - tx_log_factorial(k)) return k;
    }
}

/* Hoermann: The generation of binomial random variates (1993); waiting times for small means. */
static double tx_draw_binomial(tx_draws *d, tx_law *l, double n, double chance)
{
    if (!(n >= 0) || !(chance >= 0 && chance <= 1)) return NAN;
    if (!tx_law_fits(l, n, chance)) {
        double p = chance > 0.5 ? 1.0 - chance : chance, q = 1.0 - p, root = sqrt(n * p * q);
        *l = (tx_law){.ready = 1, .p = n, .q = chance, .flip = chance > 0.5};
        l->limit = n * p;
        if (l->limit < 10) {
            l->ratio = log1p(-p);
        } else {
            l->b = 1.15 + 2.53 * root;
            l->a = -0.0873 + 0.0248 * l->b + 0.01 * p;
            l->c = n * p + 0.5;
            l->vr = 0.92 - 4.2 / l->b;
            l->alpha = (2.83 + 5.1 / l->b) * root;
            l->ratio = log(p / q);
            l->m = floor((n + 1) * p);
            l->h = tx_log_factorial(l->m) + tx_log_factorial(n - l->m);
        }
    }
    double k = 0;
    if (l->limit == 0) return l->flip ? n : 0;
    if (l->limit < 10) {
        for (double at = 0;; k += 1) {
            at += floor(log(tx_draw(d)) / l->ratio) + 1;
            if (at > n) return l->flip ? n - k : k;
        }
    }
    for (;;) {
        double u = tx_draw(d) - 0.5, v = tx_draw(d), us = 0.5 - fabs(u);
        k = floor((2 * l->a / us + l->b) * u + l->c);
        if (k < 0 || k > n) continue;
        if (us >= 0.07 && v <= l->vr) break;
        v = log(v * l->alpha / (l->a / (us * us) + l->b));
        if (v <= l->h - tx_log_factorial(k) - tx_log_factorial(n - k) + (k - l->m) * l->ratio) break;
    }
    return l->flip ? n - k : k;
}

static void tx_random_draws(const tx_random_job *j, int64_t lo, int64_t hi)
{
    double *y = (double *)j->out;
    tx_law law = {.ready = 0};
    for (int64_t i = lo; i < hi; i++) {
        tx_draws d = {.seed = j->seed, .stream = j->stream, .block = (uint64_t)i, .left = 0};
        double p = j->p[i * j->pstep];
        switch (j->kind) {
        case TX_RAND_GAMMA: y[i] = tx_draw_gamma(&d, &law, p); break;
        case TX_RAND_POISSON: y[i] = tx_draw_poisson(&d, &law, p); break;
        default: y[i] = tx_draw_binomial(&d, &law, p, j->q[i * j->qstep]);
        }
    }
}

#endif
