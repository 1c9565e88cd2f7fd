/* Distributions whose samplers reject: gamma, Poisson, binomial. Element e draws from blocks e, e + 2^40, e + 2 * 2^40, ...
 * of the stream, so that no element shifts the numbers of another. Included by random.h. */
#ifndef TX_RANDOM_DRAWS_H
#define TX_RANDOM_DRAWS_H

typedef struct tx_draws {
    uint64_t seed, stream, block;
    uint32_t w[4];
    int left;                            /* words not used yet */
} tx_draws;

/* Uniform in (0, 1). */
static inline double tx_draw(tx_draws *d)
{
    if (d->left < 2) {
        tx_philox_block(d->w, d->seed, d->stream, d->block);
        d->block += (uint64_t)1 << 40;
        d->left = 4;
    }
    d->left -= 2;
    return ((double)(int64_t)(tx_rand_u64(d->w + d->left) >> 12) + 0.5) * 0x1p-52;
}

static double tx_draw_normal(tx_draws *d)
{
    double r = sqrt(-2.0 * log(tx_draw(d)));
    return r * cos(6.283185307179586 * tx_draw(d));
}

/* Marsaglia, Tsang: A simple method for generating gamma variables (2000). */
static double tx_draw_gamma(tx_draws *d, double shape)
{
    double boost = 1.0;
    if (!(shape > 0)) return shape == 0 ? 0.0 : NAN;
    if (shape < 1.0) {
        boost = pow(tx_draw(d), 1.0 / shape);
        shape += 1.0;
    }
    double e = shape - 1.0 / 3.0, c = 1.0 / sqrt(9.0 * e);
    for (;;) {
        double x = tx_draw_normal(d), v = 1.0 + c * x;
        if (v <= 0) continue;
        v = v * v * v;
        if (log(tx_draw(d)) < 0.5 * x * x + e - e * v + e * log(v)) return e * v * boost;
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
static double tx_draw_poisson(tx_draws *d, double mean)
{
    if (!(mean >= 0)) return NAN;
    if (mean == 0) return 0;
    if (mean < 10) {
        double limit = exp(-mean), product = tx_draw(d), k = 0;
        while (product > limit) {
            product *= tx_draw(d);
            k += 1;
        }
        return k;
    }
    double root = sqrt(mean), logm = log(mean), b = 0.931 + 2.53 * root, a = -0.059 + 0.02483 * b;
    double alpha = log(1.1239 + 1.1328 / (b - 3.4)), vr = 0.9277 - 3.6224 / (b - 2);
    for (;;) {
        double u = tx_draw(d) - 0.5, v = tx_draw(d), us = 0.5 - fabs(u);
        double k = floor((2 * a / us + b) * u + mean + 0.43);
        if (us >= 0.07 && v <= vr) return k;
        if (k < 0 || (us < 0.013 && v > us)) continue;
        if (log(v) + alpha - log(a / (us * us) + b) <= k * logm - mean - tx_log_factorial(k)) return k;
    }
}

/* Hoermann: The generation of binomial random variates (1993); waiting times for small means. */
static double tx_draw_binomial(tx_draws *d, double n, double p)
{
    if (!(n >= 0) || !(p >= 0 && p <= 1)) return NAN;
    if (p > 0.5) return n - tx_draw_binomial(d, n, 1.0 - p);
    if (n == 0 || p == 0) return 0;
    if (n * p < 10) {
        double q = log1p(-p), at = 0, k = 0;
        for (;;) {
            at += floor(log(tx_draw(d)) / q) + 1;
            if (at > n) return k;
            k += 1;
        }
    }
    double q = 1.0 - p, root = sqrt(n * p * q), b = 1.15 + 2.53 * root, a = -0.0873 + 0.0248 * b + 0.01 * p;
    double c = n * p + 0.5, vr = 0.92 - 4.2 / b, alpha = (2.83 + 5.1 / b) * root, ratio = log(p / q), m = floor((n + 1) * p);
    double h = tx_log_factorial(m) + tx_log_factorial(n - m);
    for (;;) {
        double u = tx_draw(d) - 0.5, v = tx_draw(d), us = 0.5 - fabs(u);
        double k = floor((2 * a / us + b) * u + c);
        if (k < 0 || k > n) continue;
        if (us >= 0.07 && v <= vr) return k;
        if (log(v * alpha / (a / (us * us) + b)) <= h - tx_log_factorial(k) - tx_log_factorial(n - k) + (k - m) * ratio) return k;
    }
}

static void tx_random_draws(const tx_random_job *j, int64_t lo, int64_t hi)
{
    double *y = (double *)j->out;
    for (int64_t i = lo; i < hi; i++) {
        tx_draws d = {.seed = j->seed, .stream = j->stream, .block = (uint64_t)i, .left = 0};
        double p = j->p[i * j->pstep];
        switch (j->kind) {
        case TX_RAND_GAMMA: y[i] = tx_draw_gamma(&d, p); break;
        case TX_RAND_POISSON: y[i] = tx_draw_poisson(&d, p); break;
        default: y[i] = tx_draw_binomial(&d, p, j->q[i * j->qstep]);
        }
        if (tx_cancel_requested()) return;
    }
}

#endif
