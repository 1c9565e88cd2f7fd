/* erf, erfc, erfinv. */
#ifndef TX_VMATH_ERF_H
#define TX_VMATH_ERF_H

#include "vmath_log.h"

/* ---- erf: a + a q(a^2) for small a, else 1 - exp(log erfc(a)) ---- */
TX_INLINE float tx_erff(float x)
{
    float t, a = tx__absf(x), z = a * a;
    /* erf_f32: [0, 0.86], error 1.7e-8 */
    float q = -0x1.390bbp-11f;
    q = TX_FMAF(q, z, 0x1.46fe66p-8f);
    q = TX_FMAF(q, z, -0x1.b6820cp-6f);
    q = TX_FMAF(q, z, 0x1.ce19eap-4f);
    q = TX_FMAF(q, z, -0x1.8126e4p-2f);
    q = TX_FMAF(q, z, 0x1.06eba6p-3f);
    float small = TX_FMAF(q, a, a);
    float b = a > 4.0f ? 4.0f : a;
    /* lerfc_f32: [0.92, 4], error 2.2e-10 */
    float p = -0x1.4b5602p-18f;
    p = TX_FMAF(p, b, 0x1.7e4b16p-15f);
    p = TX_FMAF(p, b, 0x1.a02e1p-15f);
    p = TX_FMAF(p, b, -0x1.801096p-9f);
    p = TX_FMAF(p, b, 0x1.737e12p-6f);
    p = TX_FMAF(p, b, -0x1.af27d4p-4f);
    p = TX_FMAF(p, b, -0x1.4570bp-1f);
    p = TX_FMAF(p, b, -0x1.20e8c4p+0f);
    float e = tx__exp_coref(p * b, &t);
    float big = TX_FMAF(-e, tx__pow2f(t), 1.0f);
    return tx__signf(a < 0.921875f ? small : big, x);
}
TX_INLINE double tx__erf_small(double a)
{
    double z = a * a;
    /* erf_f64: [0, 1], error 1.4e-17 */
    double q = -0x1.a219bb63c0cc1p-31;
    q = TX_FMA(q, z, 0x1.d3d2c7c46138ep-27);
    q = TX_FMA(q, z, -0x1.5b8b0ad294155p-23);
    q = TX_FMA(q, z, 0x1.b96b25d55e931p-20);
    q = TX_FMA(q, z, -0x1.f4c82ad1f17b4p-17);
    q = TX_FMA(q, z, 0x1.f9a2967c8fddbp-14);
    q = TX_FMA(q, z, -0x1.c02daeb53ee5dp-11);
    q = TX_FMA(q, z, 0x1.565bcceed204ep-8);
    q = TX_FMA(q, z, -0x1.b82ce311a9574p-6);
    q = TX_FMA(q, z, 0x1.ce2f21a03f8b5p-4);
    q = TX_FMA(q, z, -0x1.812746b03799dp-2);
    q = TX_FMA(q, z, 0x1.06eba8214db68p-3);
    return TX_FMA(q, a, a);
}
TX_INLINE double tx_erf(double x)
{
    double t, a = tx__abs(x), small = tx__erf_small(a);
    double b = a > 6.0 ? 6.0 : a;
    /* lerfc_f64: [1, 5.95], error 3.7e-18 */
    double p = 0x1.ab7ee4d1faf61p-40;
    p = TX_FMA(p, b, -0x1.28a04e4a1ce95p-34);
    p = TX_FMA(p, b, 0x1.817be345a229fp-30);
    p = TX_FMA(p, b, -0x1.377a26d6ebb7p-26);
    p = TX_FMA(p, b, 0x1.5e15cb4bc88p-23);
    p = TX_FMA(p, b, -0x1.21673d964975ap-20);
    p = TX_FMA(p, b, 0x1.6964571837e9p-18);
    p = TX_FMA(p, b, -0x1.556f0e6830f03p-16);
    p = TX_FMA(p, b, 0x1.d613c5110de44p-15);
    p = TX_FMA(p, b, -0x1.907d954d3d379p-14);
    p = TX_FMA(p, b, 0x1.04adf0b8e7ebep-20);
    p = TX_FMA(p, b, 0x1.2d4a0c1811792p-11);
    p = TX_FMA(p, b, -0x1.bbb553f795c09p-10);
    p = TX_FMA(p, b, 0x1.bcae378468d5fp-13);
    p = TX_FMA(p, b, 0x1.3957e8314064bp-6);
    p = TX_FMA(p, b, -0x1.a4f3059caa2a8p-4);
    p = TX_FMA(p, b, -0x1.45f316fc1e467p-1);
    p = TX_FMA(p, b, -0x1.20dd741288a2dp+0);
    double e = tx__exp_core(p * b, &t);
    double big = TX_FMA(-e, tx__pow2(t), 1.0);
    return tx__sign(a < 1.0 ? small : big, x);
}

/* ---- erfc: e^(-a^2) u q(u), u = 1 / (a + c) ---- */
TX_INLINE float tx_erfcf(float x)
{
    double t, a = (double)tx__absf(x);
    a = a > 10.3 ? 10.3 : a;
    double u = 1.0 / (a + 3.0);
    /* erfc_mid: [0.0757, 0.33334], error 1.6e-9 */
    double q = 0x1.da69ac82fb41ap+8;
    q = TX_FMA(q, u, 0x1.2638aaedc2366p+11);
    q = TX_FMA(q, u, -0x1.348d1caeca9dcp+12);
    q = TX_FMA(q, u, 0x1.8432930cb31fdp+11);
    q = TX_FMA(q, u, -0x1.a0794e43af2dbp+9);
    q = TX_FMA(q, u, 0x1.09bf7487972fap+8);
    q = TX_FMA(q, u, 0x1.d5c82fa518e7cp+1);
    q = TX_FMA(q, u, 0x1.e53031e8ff798p+3);
    q = TX_FMA(q, u, 0x1.29cf7f34aa813p+2);
    q = TX_FMA(q, u, 0x1.b281f28b578acp+0);
    q = TX_FMA(q, u, 0x1.20d4725d12a09p-1);
    double p = 1.0 + tx__exp_poly_mid(tx__exp_reduce(-(a * a), &t));
    double v = p * tx__pow2(t) * (q * u);
    return (float)(x < 0.0f ? 2.0 - v : v);
}
TX_INLINE double tx_erfc(double x)
{
    double t, a = tx__abs(x), small = 1.0 - tx__sign(tx__erf_small(a), x);
    double b = a > 27.3 ? 27.3 : a;
    double d = b + 4.0, dl = (4.0 - d) + b, u = 1.0 / d, c = u - 0.125;
    /* erfc_f64: [-0.0931, 0.1112], error 1.2e-16 */
    double r = 0x1.9da07218d5c4ep+33;
    r = TX_FMA(r, c, -0x1.a6c95be7b4047p+33);
    r = TX_FMA(r, c, -0x1.9df698df20804p+29);
    r = TX_FMA(r, c, 0x1.015e0294702bp+31);
    r = TX_FMA(r, c, 0x1.6212ad6cdbcb1p+27);
    r = TX_FMA(r, c, -0x1.c485b1b5d2ffp+27);
    r = TX_FMA(r, c, -0x1.7fb0c9b10ae0bp+25);
    r = TX_FMA(r, c, 0x1.3aee0bb2cf24cp+24);
    r = TX_FMA(r, c, 0x1.3c790b37562ffp+23);
    r = TX_FMA(r, c, -0x1.e7d62f4aae876p+17);
    r = TX_FMA(r, c, -0x1.72ce069533e11p+20);
    r = TX_FMA(r, c, -0x1.dd284db579217p+18);
    r = TX_FMA(r, c, 0x1.269b5ab74d472p+15);
    r = TX_FMA(r, c, 0x1.908f4737a1079p+16);
    r = TX_FMA(r, c, 0x1.b00c05287f5f8p+15);
    r = TX_FMA(r, c, 0x1.38dbd2c8c7df5p+14);
    r = TX_FMA(r, c, 0x1.645fd8a4c318p+12);
    r = TX_FMA(r, c, 0x1.52cac23710608p+10);
    r = TX_FMA(r, c, 0x1.14eacb1ad027ap+8);
    r = TX_FMA(r, c, 0x1.8be202d26c6fbp+5);
    r = TX_FMA(r, c, 0x1.f3fe31ecb49c1p+2);
    /* the relative rounding error of u, times how much the result feels it */
    double pu = u * d, ul = ((1.0 - pu) - tx__prod_err(u, d, pu)) - u * dl;
    ul *= TX_FMA(u, 14.5, 0.5);
    double h = b * b, l = tx__prod_err(b, b, h);
    double w = tx__exp_poly(tx__exp_reduce(-h, &t));
    double e = 1.0 + w, el = TX_FMA(ul - l, e, (1.0 - e) + w); /* e^(-h - l) (1 + ul) */
    double q = TX_FMA(r, c, 0x1.18932bf08e154p+0);
    double ql = TX_FMA(r, c, 0x1.18932bf08e154p+0 - q) + 0x1.1990f52138873p-54; /* the lowest coefficient in two parts */
    double m = q * u, ml = TX_FMA(ql, u, tx__prod_err(q, u, m));
    double v = tx__scale(TX_FMA(e, m, TX_FMA(el, m, e * ml)), t);
    v = x < 0.0 ? 2.0 - v : v;
    return a < 0.25 ? small : v;
}

/* ---- erfinv: x q(w), w = -log(1 - x^2), in pieces ---- */
TX_INLINE float tx_erfinvf(float x)
{
    double y = (double)x, u1 = (1.0 - y) * (1.0 + y);
    uint64_t u = tx__bits(u1) + TX__LOG_OFF;
    double w = -tx__log_core_mid(tx__log_k(u), tx__log_m(u) - 1.0);
    double v = w - 2.5, s = sqrt(w > 5.0 ? w : 5.0) - 3.0;
    /* erfinv_mid_1: [-2.5, 2.51], error 4.2e-10 */
    double p = 0x1.21a33c6fc70a9p-33;
    p = TX_FMA(p, v, 0x1.de4e6c63f74f6p-32);
    p = TX_FMA(p, v, -0x1.7a2a894dca92p-27);
    p = TX_FMA(p, v, 0x1.1b3813344a3cp-26);
    p = TX_FMA(p, v, 0x1.017cd456fa6d8p-21);
    p = TX_FMA(p, v, -0x1.cbd998109a0bep-19);
    p = TX_FMA(p, v, -0x1.4f728b10bc6b3p-18);
    p = TX_FMA(p, v, 0x1.c9bb7f9017effp-13);
    p = TX_FMA(p, v, -0x1.48639cf2ffe0dp-10);
    p = TX_FMA(p, v, -0x1.11c3e1751a9cp-8);
    p = TX_FMA(p, v, 0x1.f91e897460cc4p-3);
    p = TX_FMA(p, v, 0x1.805c5cff8163p+0);
    /* erfinv_mid_2: [-0.766, 1.1], error 1.6e-9 */
    double q = -0x1.ec3212847c765p-16;
    q = TX_FMA(q, s, 0x1.500691f14ab44p-13);
    q = TX_FMA(q, s, -0x1.2314fefc9ff74p-12);
    q = TX_FMA(q, s, -0x1.f5ccb7cca3005p-14);
    q = TX_FMA(q, s, 0x1.82aedf9caceb5p-10);
    q = TX_FMA(q, s, -0x1.d3918c9da5db1p-9);
    q = TX_FMA(q, s, 0x1.74c02e1667d94p-8);
    q = TX_FMA(q, s, -0x1.f4dfd4ef9748dp-8);
    q = TX_FMA(q, s, 0x1.3580eb49edba4p-7);
    q = TX_FMA(q, s, 0x1.006dc9c921028p+0);
    q = TX_FMA(q, s, 0x1.6a9efbdc6348cp+1);
    float r = (float)(y * (w < 5.0 ? p : q)), a = tx__absf(x);
    r = a < 1.0f ? r : (a == 1.0f ? tx__signf(TX_INFF, x) : TX_NANF);
    return x == x ? r : x;
}
TX_INLINE double tx_erfinv(double x)
{
    double a = tx__abs(x), u1 = (1.0 - a) * (1.0 + a);
    uint64_t u = tx__bits(u1) + TX__LOG_OFF;
    double w = -tx__log_core(tx__log_k(u), tx__log_m(u) - 1.0);
    double v = w - 3.125, root = sqrt(w > 6.25 ? w : 6.25);
    double s = root - (root < 4.0 ? 3.25 : 5.0);
    /* erfinv_f64_1: [-3.125, 3.126], error 2.1e-16 */
    double p1 = -0x1.4447b20a12cbep-68;
    p1 = TX_FMA(p1, v, -0x1.8f7a581b21058p-63);
    p1 = TX_FMA(p1, v, 0x1.85c9b1b76bb4bp-60);
    p1 = TX_FMA(p1, v, 0x1.9cf55e3afe7f3p-57);
    p1 = TX_FMA(p1, v, -0x1.35450d35e76cdp-53);
    p1 = TX_FMA(p1, v, 0x1.745122bf01dbap-56);
    p1 = TX_FMA(p1, v, 0x1.df0dbdb5097p-48);
    p1 = TX_FMA(p1, v, -0x1.6d1d3580836c8p-45);
    p1 = TX_FMA(p1, v, -0x1.6f844ca5a114cp-44);
    p1 = TX_FMA(p1, v, 0x1.729f749e67f02p-39);
    p1 = TX_FMA(p1, v, -0x1.c88196977c124p-37);
    p1 = TX_FMA(p1, v, -0x1.dc576b0e30babp-35);
    p1 = TX_FMA(p1, v, 0x1.20f461f7b7afdp-30);
    p1 = TX_FMA(p1, v, -0x1.1a9e3dd420597p-28);
    p1 = TX_FMA(p1, v, -0x1.f36cd358acd6p-26);
    p1 = TX_FMA(p1, v, 0x1.c6b4f5f462d92p-22);
    p1 = TX_FMA(p1, v, -0x1.6e8a54457c4e8p-20);
    p1 = TX_FMA(p1, v, -0x1.d1d1f7b994b9p-17);
    p1 = TX_FMA(p1, v, 0x1.879c2a2143ba9p-13);
    p1 = TX_FMA(p1, v, -0x1.845769484db7bp-11);
    p1 = TX_FMA(p1, v, -0x1.8b6c33114fb83p-8);
    p1 = TX_FMA(p1, v, 0x1.ebd80d9b13e24p-3);
    p1 = TX_FMA(p1, v, 0x1.a755e7c99ae87p+0);
    /* erfinv_f64_2: [-0.751, 0.751], error 1.7e-16 */
    double p2 = 0x1.c45785e62f2ep-29;
    p2 = TX_FMA(p2, s, 0x1.85d7051ff26c8p-24);
    p2 = TX_FMA(p2, s, -0x1.2a6897add365p-22);
    p2 = TX_FMA(p2, s, 0x1.38970f8ea7e6bp-26);
    p2 = TX_FMA(p2, s, 0x1.942b0d0c67976p-20);
    p2 = TX_FMA(p2, s, -0x1.0d5c9f67f30e7p-18);
    p2 = TX_FMA(p2, s, 0x1.8827d5f379b47p-19);
    p2 = TX_FMA(p2, s, 0x1.a299ac582545cp-17);
    p2 = TX_FMA(p2, s, -0x1.8cedf05067c63p-15);
    p2 = TX_FMA(p2, s, 0x1.1e68517c2be0fp-14);
    p2 = TX_FMA(p2, s, 0x1.932c5ee4006acp-16);
    p2 = TX_FMA(p2, s, -0x1.7448a8d834568p-12);
    p2 = TX_FMA(p2, s, 0x1.f3cc5615149cdp-11);
    p2 = TX_FMA(p2, s, -0x1.ba924131766fp-10);
    p2 = TX_FMA(p2, s, 0x1.468eeca3c74b2p-9);
    p2 = TX_FMA(p2, s, -0x1.ebadabb89a77ap-9);
    p2 = TX_FMA(p2, s, 0x1.5ffcfe5b7a884p-8);
    p2 = TX_FMA(p2, s, 0x1.0158a6d641d3ap+0);
    p2 = TX_FMA(p2, s, 0x1.8abcc380d5a47p+1);
    /* erfinv_f64_3: [-1.001, 1.1], error 2.8e-16 */
    double p3 = -0x1.09b4e3d669f56p-37;
    p3 = TX_FMA(p3, s, -0x1.0e9ddff14ec9ap-32);
    p3 = TX_FMA(p3, s, 0x1.893677216b02p-30);
    p3 = TX_FMA(p3, s, -0x1.06e0cedf546ebp-28);
    p3 = TX_FMA(p3, s, 0x1.09e48fb7d23dap-27);
    p3 = TX_FMA(p3, s, -0x1.00132eb217abdp-26);
    p3 = TX_FMA(p3, s, 0x1.f30697b572368p-26);
    p3 = TX_FMA(p3, s, -0x1.2300433551e0fp-24);
    p3 = TX_FMA(p3, s, 0x1.ebe1a34ae04dcp-23);
    p3 = TX_FMA(p3, s, -0x1.0a8c1236bee6p-20);
    p3 = TX_FMA(p3, s, 0x1.2fbcfa0550de3p-18);
    p3 = TX_FMA(p3, s, -0x1.4a349bd628cbep-16);
    p3 = TX_FMA(p3, s, 0x1.3ebf4f07fab0ep-14);
    p3 = TX_FMA(p3, s, -0x1.c2f36a843951dp-13);
    p3 = TX_FMA(p3, s, -0x1.22ea5df21c245p-13);
    p3 = TX_FMA(p3, s, 0x1.02a30d1fba0b5p+0);
    p3 = TX_FMA(p3, s, 0x1.3664ddd1ad7fbp+2);
    double r = w < 6.25 ? p1 : (root < 4.0 ? p2 : p3);
    r = a < 1.0 ? x * r : (a == 1.0 ? tx__sign(TX_INF, x) : TX_NAN);
    return x == x ? r : x;
}

#endif
