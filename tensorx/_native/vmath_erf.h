/* erf, erfc, erfinv. */
#ifndef TX_VMATH_ERF_H
#define TX_VMATH_ERF_H

#include "vmath_log.h"

TX_INLINE float tx_erff(float x)
{
    float t, a = tx__absf(x), z = a * a;
    /* a < 0.921875: a + a (erf(a)/a - 1) */
    float q = -0x1.390bbp-11f;
    q = TX_FMAF(q, z, 0x1.46fe66p-8f);
    q = TX_FMAF(q, z, -0x1.b6820cp-6f);
    q = TX_FMAF(q, z, 0x1.ce19eap-4f);
    q = TX_FMAF(q, z, -0x1.8126e4p-2f);
    q = TX_FMAF(q, z, 0x1.06eba6p-3f);
    float small = TX_FMAF(q, a, a);
    /* else 1 - exp(log erfc) */
    float b = a > 4.0f ? 4.0f : a;
    float p = -0x1.4b673p-18f;
    p = TX_FMAF(p, b, 0x1.7e562ep-15f);
    p = TX_FMAF(p, b, 0x1.a01a1p-15f);
    p = TX_FMAF(p, b, -0x1.80105ap-9f);
    p = TX_FMAF(p, b, 0x1.737e1p-6f);
    p = TX_FMAF(p, b, -0x1.af27d4p-4f);
    p = TX_FMAF(p, b, -0x1.4570bp-1f);
    p = TX_FMAF(p, b, -0x1.20e8c4p+0f);
    float e = tx__exp_coref(p * b, &t);
    float big = TX_FMAF(-e, tx__pow2f(t), 1.0f);
    return tx__signf(a < 0.921875f ? small : big, x);
}

TX_INLINE double tx_erf(double x)
{
    double t, a = tx__abs(x), z = a * a;
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
    double small = TX_FMA(q, a, a);
    double b = a > 6.0 ? 6.0 : a;
    double p = 0x1.ab3e019cd2d6fp-40;
    p = TX_FMA(p, b, -0x1.2878c823ec6c2p-34);
    p = TX_FMA(p, b, 0x1.814f602810be2p-30);
    p = TX_FMA(p, b, -0x1.375b5b64974a6p-26);
    p = TX_FMA(p, b, 0x1.5df87660f9c3bp-23);
    p = TX_FMA(p, b, -0x1.2152d28f7e616p-20);
    p = TX_FMA(p, b, 0x1.694ed261fc49fp-18);
    p = TX_FMA(p, b, -0x1.555d84a7b8c3ap-16);
    p = TX_FMA(p, b, 0x1.d5fd6254908c5p-15);
    p = TX_FMA(p, b, -0x1.9067142af3769p-14);
    p = TX_FMA(p, b, 0x1.f789c9a7b30a2p-21);
    p = TX_FMA(p, b, 0x1.2d4f93011be28p-11);
    p = TX_FMA(p, b, -0x1.bbb7fb218bd8dp-10);
    p = TX_FMA(p, b, 0x1.bcbda7dfd6064p-13);
    p = TX_FMA(p, b, 0x1.3957d7c0c2887p-6);
    p = TX_FMA(p, b, -0x1.a4f3041a4227bp-4);
    p = TX_FMA(p, b, -0x1.45f317070bf66p-1);
    p = TX_FMA(p, b, -0x1.20dd7411f5c89p+0);
    double e = tx__exp_core(p * b, &t);
    double big = TX_FMA(-e, tx__pow2(t), 1.0);
    return tx__sign(a < 1.0 ? small : big, x);
}

TX_INLINE float tx_erfcf(float x) { return erfcf(x); }
TX_INLINE double tx_erfc(double x) { return erfc(x); }


/* Giles' approximation, then Newton steps on erf (central) or erfc (tails). */
TX_INLINE double tx_erfinv(double x)
{
    double a = tx__abs(x);
    if (!(a < 1.0)) return a == 1.0 ? tx__sign(TX_INF, x) : TX_NAN;
    if (a < 1e-9) return x * 0.88622692545275801365;
    double c = 1.0 - a, w = -log(c * (1.0 + a)), y;
    if (w < 5.0) {
        double v = w - 2.5;
        y = 2.81022636e-08;
        y = y * v + 3.43273939e-07;
        y = y * v - 3.5233877e-06;
        y = y * v - 4.39150654e-06;
        y = y * v + 0.00021858087;
        y = y * v - 0.00125372503;
        y = y * v - 0.00417768164;
        y = y * v + 0.246640727;
        y = y * v + 1.50140941;
    } else {
        double v = sqrt(w) - 3.0;
        y = -0.000200214257;
        y = y * v + 0.000100950558;
        y = y * v + 0.00134934322;
        y = y * v - 0.00367342844;
        y = y * v + 0.00573950773;
        y = y * v - 0.0076224613;
        y = y * v + 0.00943887047;
        y = y * v + 1.00167406;
        y = y * v + 2.83297682;
    }
    y *= a;
    for (int i = 0; i < 2; i++) {
        double err = a < 0.5 ? erf(y) - a : c - erfc(y);
        double d = err / (1.12837916709551257390 * exp(-y * y));
        y -= d / (1.0 + y * d); /* Halley */
    }
    return tx__sign(y, x);
}
TX_INLINE float tx_erfinvf(float x) { return (float)tx_erfinv((double)x); }

#endif
