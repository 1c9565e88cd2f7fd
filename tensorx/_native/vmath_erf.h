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

/* ---- erfc: in float32 e^(-a^2) u q(u), u = 1 / (a + 3), in double ---- */
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
/* e^(-a^2) q / (a + 3/4), q = (a + 3/4) e^(a^2) erfc(a) nearly constant, in two parts */
#define TX__ERFC_HI 0x1.4d2ec42da8b94p-1
#define TX__ERFC_LO 0x1.da4fcfaf52a29p-58
TX_INLINE double tx_erfc(double x)
{
    double t, a = tx__abs(x), small = 1.0 - tx__sign(tx__erf_small(a), x);
    double b = a > 27.3 ? 27.3 : a;
    double c = 1.0 / (b + 4.0) - 0.125;
    /* erfc_f64: [-0.0931, 0.1112], error 1.7e-17 */
    double r = 0x1.5b5df8a03633ep+35;
    r = TX_FMA(r, c, -0x1.c28dc575ff41cp+32);
    r = TX_FMA(r, c, -0x1.ab1bb5b29a6bap+32);
    r = TX_FMA(r, c, 0x1.54c92817e0a3fp+29);
    r = TX_FMA(r, c, 0x1.a0a9715d434e3p+29);
    r = TX_FMA(r, c, 0x1.52d9d2f8f6a77p+24);
    r = TX_FMA(r, c, -0x1.7175cdd74d7a8p+26);
    r = TX_FMA(r, c, -0x1.473e3d310dc2fp+24);
    r = TX_FMA(r, c, 0x1.a951f356f10cdp+22);
    r = TX_FMA(r, c, 0x1.243a062edc069p+22);
    r = TX_FMA(r, c, 0x1.4f0d2e7a5f09cp+19);
    r = TX_FMA(r, c, -0x1.92ff095db702ep+18);
    r = TX_FMA(r, c, -0x1.2f96e2a18638cp+18);
    r = TX_FMA(r, c, -0x1.d03e761bddedap+16);
    r = TX_FMA(r, c, -0x1.f7bc26e8ef839p+14);
    r = TX_FMA(r, c, -0x1.9f2d6b7a8f014p+12);
    r = TX_FMA(r, c, -0x1.fd5ea95767016p+9);
    r = TX_FMA(r, c, -0x1.7d661b51774abp+6);
    r = TX_FMA(r, c, 0x1.cbcbb937c821p+1);
    r = TX_FMA(r, c, 0x1.feeed64c70318p+1);
    r = TX_FMA(r, c, 0x1.139d67c45f2d5p+0);
    /* value at 0: 0x1.4d2ec42da8b94p-1 + 0x1.da4fcfaf52a29p-58 */
    double q = TX_FMA(r, c, TX__ERFC_HI), ql = TX_FMA(r, c, TX__ERFC_HI - q) + TX__ERFC_LO;
    double h = b * b, l = tx__prod_err(b, b, h);
    double w = tx__exp_poly(tx__exp_reduce(-h, &t));
    double e = 1.0 + w, el = TX_FMA(-l, e, (1.0 - e) + w); /* e^(-h - l) */
    double m = e * q, ml = TX_FMA(el, q, TX_FMA(e, ql, tx__prod_err(e, q, m)));
    /* (m + ml) / (d + dl) */
    double d = b + 0.75, dl = b > 0.75 ? (b - d) + 0.75 : (0.75 - d) + b, inv = 1.0 / d;
    double v = m * inv, p = v * d;
    v = TX_FMA(((m - p) - tx__prod_err(v, d, p)) + TX_FMA(-v, dl, ml), inv, v);
    v = tx__scale(v, t);
    v = x < 0.0 ? 2.0 - v : v;
    return a < 0.25 ? small : v;
}

#define TX__ERFINV_1 0x1.a755e7c99ae86p+0
#define TX__ERFINV_2 0x1.8abcc380d5a48p+1
#define TX__ERFINV_3 0x1.3664ddd1ad7fbp+2
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
    /* erfinv_f64_1: [-3.125, 3.126], error 4.2e-17 */
    double p1 = -0x1.6db89aac31e3bp-72;
    p1 = TX_FMA(p1, v, 0x1.e7111204579f3p-69);
    p1 = TX_FMA(p1, v, 0x1.3b4480d4a757ap-66);
    p1 = TX_FMA(p1, v, -0x1.9c012cb2b5aafp-62);
    p1 = TX_FMA(p1, v, 0x1.982290da55ff7p-61);
    p1 = TX_FMA(p1, v, 0x1.1edbbfe4ecdb8p-56);
    p1 = TX_FMA(p1, v, -0x1.1c7e2590a4e5p-53);
    p1 = TX_FMA(p1, v, -0x1.7086afc3205b3p-55);
    p1 = TX_FMA(p1, v, 0x1.d6b966e6c06fp-48);
    p1 = TX_FMA(p1, v, -0x1.686cc2e916974p-45);
    p1 = TX_FMA(p1, v, -0x1.6bd5f849dd586p-44);
    p1 = TX_FMA(p1, v, 0x1.7235b9c1f26bdp-39);
    p1 = TX_FMA(p1, v, -0x1.c8a43198a1611p-37);
    p1 = TX_FMA(p1, v, -0x1.dc3f0a3251577p-35);
    p1 = TX_FMA(p1, v, 0x1.20f537a8c8d0ep-30);
    p1 = TX_FMA(p1, v, -0x1.1a9eb11fa4f25p-28);
    p1 = TX_FMA(p1, v, -0x1.f36ced7610d8fp-26);
    p1 = TX_FMA(p1, v, 0x1.c6b4f88d189f2p-22);
    p1 = TX_FMA(p1, v, -0x1.6e8a53ccf2b3fp-20);
    p1 = TX_FMA(p1, v, -0x1.d1d1f7ca2a96fp-17);
    p1 = TX_FMA(p1, v, 0x1.879c2a20b3c45p-13);
    p1 = TX_FMA(p1, v, -0x1.84576948355bfp-11);
    p1 = TX_FMA(p1, v, -0x1.8b6c33114ea9bp-8);
    p1 = TX_FMA(p1, v, 0x1.ebd80d9b13dfap-3);
    /* value at 0: 0x1.a755e7c99ae86p+0 + -0x1.b3639c30931fcp-56 */
    /* erfinv_f64_2: [-0.751, 0.751], error 2.6e-17 */
    double p2 = 0x1.06913555e161cp-27;
    p2 = TX_FMA(p2, s, -0x1.06b748fb77ebcp-26);
    p2 = TX_FMA(p2, s, -0x1.657e77712b958p-26);
    p2 = TX_FMA(p2, s, 0x1.1a801f264a4f4p-23);
    p2 = TX_FMA(p2, s, -0x1.07bbd10b257b4p-22);
    p2 = TX_FMA(p2, s, -0x1.d9b64be151db3p-26);
    p2 = TX_FMA(p2, s, 0x1.8dbc0c686642p-20);
    p2 = TX_FMA(p2, s, -0x1.0b7a62affbe26p-18);
    p2 = TX_FMA(p2, s, 0x1.899994a47f55ap-19);
    p2 = TX_FMA(p2, s, 0x1.a241de49623fbp-17);
    p2 = TX_FMA(p2, s, -0x1.8cf45f53ac163p-15);
    p2 = TX_FMA(p2, s, 0x1.1e6abb3a45b02p-14);
    p2 = TX_FMA(p2, s, 0x1.932e8eaf52d3dp-16);
    p2 = TX_FMA(p2, s, -0x1.7448bcc3114f1p-12);
    p2 = TX_FMA(p2, s, 0x1.f3cc545e5b084p-11);
    p2 = TX_FMA(p2, s, -0x1.ba9240d892434p-10);
    p2 = TX_FMA(p2, s, 0x1.468eeca942dcap-9);
    p2 = TX_FMA(p2, s, -0x1.ebadabba0244cp-9);
    p2 = TX_FMA(p2, s, 0x1.5ffcfe5b6cd6fp-8);
    p2 = TX_FMA(p2, s, 0x1.0158a6d641d55p+0);
    /* value at 0: 0x1.8abcc380d5a48p+1 + -0x1.92060f062813p-54 */
    /* erfinv_f64_3: [-1.001, 1.1], error 1.2e-17 */
    double p3 = -0x1.2358eb1744fa9p-36;
    p3 = TX_FMA(p3, s, 0x1.80139cc5e59dcp-35);
    p3 = TX_FMA(p3, s, 0x1.cb5f12098187cp-35);
    p3 = TX_FMA(p3, s, -0x1.e4ee32564a346p-32);
    p3 = TX_FMA(p3, s, 0x1.72b3c6a49e8acp-30);
    p3 = TX_FMA(p3, s, -0x1.dc3d425629697p-29);
    p3 = TX_FMA(p3, s, 0x1.0b9c9b46939aep-27);
    p3 = TX_FMA(p3, s, -0x1.062e663650819p-26);
    p3 = TX_FMA(p3, s, 0x1.f2ddda669dc0bp-26);
    p3 = TX_FMA(p3, s, -0x1.22235c697fb36p-24);
    p3 = TX_FMA(p3, s, 0x1.ebdf89e2b2435p-23);
    p3 = TX_FMA(p3, s, -0x1.0a908656971dp-20);
    p3 = TX_FMA(p3, s, 0x1.2fbd02df11705p-18);
    p3 = TX_FMA(p3, s, -0x1.4a348f93c2014p-16);
    p3 = TX_FMA(p3, s, 0x1.3ebf4ef3622bbp-14);
    p3 = TX_FMA(p3, s, -0x1.c2f36aa2ad7b7p-13);
    p3 = TX_FMA(p3, s, -0x1.22ea5df1ad0edp-13);
    p3 = TX_FMA(p3, s, 0x1.02a30d1fba10ep+0);
    /* value at 0: 0x1.3664ddd1ad7fbp+2 + -0x1.7c90e434da15ap-54 */
    int low = w < 6.25, mid = root < 4.0;
    double p = (low ? p1 : (mid ? p2 : p3)), c = low ? v : s;
    double hi = low ? TX__ERFINV_1 : (mid ? TX__ERFINV_2 : TX__ERFINV_3);
    double q = TX_FMA(p, c, hi), ql = TX_FMA(p, c, hi - q);
    double r = x * q;
    r += TX_FMA(x, q, -r) + x * ql;
    r = a < 1.0 ? tx__abs(r) : (a == 1.0 ? TX_INF : TX_NAN);
    return x == x ? tx__sign(r, x) : x;
}

#endif
