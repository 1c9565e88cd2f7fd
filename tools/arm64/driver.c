/* Runs every kernel on fixed inputs and prints one digest per line; tools/arm64.py
 * compares the lines of two machines.  table_rows.h, generated, lists the rows of the op table. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* syscall and thread names, as Python.h asks for */
#endif
#include "kernels.c"
#include "table_rows.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N = 331 }; /* no multiple of any vector length */

static const int size_of[TX_NDT] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16};
static const char *const name_of[TX_NDT] = {
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
};

static uint64_t state;

static uint64_t draw(void)
{
    state += 0x9E3779B97F4A7C15u;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static double draw_real(int i)
{
    static const double special[] = {
        0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 1e30, -1e30, 1e-30, 3.4e38, 1e-42, 88.7, -103.9, 709.8, 3.14159265, 1e5, -1e9, 255.0, -129.0,
    };
    const int count = (int)(sizeof special / sizeof *special);
    if (i % 9 == 4) return special[draw() % (uint64_t)count];
    if (i % 61 == 7) return (double)INFINITY * (i % 2 ? 1 : -1);
    if (i % 67 == 9) return (double)NAN;
    return ((double)(draw() >> 11) / 9007199254740992.0 - 0.5) * (i % 3 ? 8.0 : 200.0);
}

static void fill_values(void *to, int dt)
{
    for (int i = 0; i < N; i++) {
        char *p = (char *)to + i * size_of[dt];
        const double re = draw_real(i), im = draw_real(i + 5);
        const uint64_t bits = i % 2 ? draw() : draw() % 17;
        switch (dt) {
        case TX_BOOL: *p = (char)(bits & 1); break;
        case TX_F32: { float v = (float)re; memcpy(p, &v, 4); break; }
        case TX_F64: memcpy(p, &re, 8); break;
        case TX_C64: { float v[2] = {(float)re, (float)im}; memcpy(p, v, 8); break; }
        case TX_C128: { double v[2] = {re, im}; memcpy(p, v, 16); break; }
        default: memcpy(p, &bits, (size_t)size_of[dt]); break; /* little endian; halves: any bits */
        }
    }
}

/* FNV-1a over the elements; all NaNs count as one, their payload is the machine's. */
static uint64_t digest(const void *from, int dt, ptrdiff_t n)
{
    uint64_t h = 0xCBF29CE484222325u;
    const int parts = dt == TX_C64 || dt == TX_C128 ? 2 : 1, size = size_of[dt] / parts;
    for (ptrdiff_t i = 0; i < n * parts; i++) {
        uint64_t bits = 0;
        memcpy(&bits, (const char *)from + i * size, (size_t)size);
        if (dt == TX_F32 || dt == TX_C64) {
            if ((bits & 0x7FFFFFFFu) > 0x7F800000u) bits = 0x7FC00000u;
        } else if (dt == TX_F64 || dt == TX_C128) {
            if ((bits & 0x7FFFFFFFFFFFFFFFu) > 0x7FF0000000000000u) bits = 0x7FF8000000000000u;
        } else if (dt == TX_F16) {
            if ((bits & 0x7FFFu) > 0x7C00u) bits = 0x7E00u;
        } else if (dt == TX_BF16) {
            if ((bits & 0x7FFFu) > 0x7F80u) bits = 0x7FC0u;
        }
        for (int k = 0; k < 8; k++) h = (h ^ (bits >> (8 * k) & 255)) * 0x100000001B3u;
    }
    return h;
}

static _Alignas(64) char in[TX_MAX_OPERANDS][N * 16 + 64], out[N * 16 + 64], again[N * 16 + 64];

static int elementwise_rows(const tx_kernels *k)
{
    int bad = 0;
    for (int row = 0; row < k->nops; row++)
        for (int dt = 0; dt < TX_NDT; dt++) {
            const tx_ew_fn f = k->ew[row * TX_NDT + dt];
            if (f == NULL) continue;
            const struct row *r = &rows[row];
            const void *src[TX_MAX_OPERANDS] = {in[0], in[1], in[2], in[3]}, *one[TX_MAX_OPERANDS];
            state = (uint64_t)(row * 100 + dt);
            for (int j = 0; j < r->arity; j++) fill_values(in[j], r->masks >> j & 1 ? TX_BOOL : dt);
            memset(out, 0, sizeof out);
            f(out, src, N, 0);
            printf("%s %s %016llx\n", r->name, name_of[dt], (unsigned long long)digest(out, r->out[dt], N));
            /* the same bits for an element on its own */
            memset(again, 0, sizeof again);
            for (int i = 0; i < N; i++) {
                for (int j = 0; j < r->arity; j++)
                    one[j] = in[j] + i * size_of[r->masks >> j & 1 ? TX_BOOL : dt];
                f(again + i * size_of[r->out[dt]], one, 1, (unsigned)i % (1u << r->arity));
            }
            if (digest(again, r->out[dt], N) != digest(out, r->out[dt], N)) {
                fprintf(stderr, "%s %s: an element depends on its position\n", r->name, name_of[dt]);
                bad = 1;
            }
        }
    return bad;
}

static void other_families(const tx_kernels *k)
{
    for (int to = 0; to < TX_NDT; to++)
        for (int from = 0; from < TX_NDT; from++) {
            if (k->cast[to][from] == NULL) continue;
            state = (uint64_t)(to * 100 + from);
            fill_values(in[0], from);
            memset(out, 0, sizeof out);
            k->cast[to][from](out, in[0], N);
            printf("cast-to-%s %s %016llx\n", name_of[to], name_of[from], (unsigned long long)digest(out, to, N));
        }
    for (int op = 0; op < TX_NRED; op++)
        for (int dt = 0; dt < TX_NDT; dt++) {
            const tx_red *red = &k->red[op][dt];
            if (!red->ok) continue;
            tx_red_state st;
            memset(&st, 0, sizeof st);
            memset(out, 0, sizeof out);
            state = (uint64_t)(op * 100 + dt);
            fill_values(in[0], dt);
            red->fold(&st, in[0], N, 0);
            red->finish(&st, out);
            printf("reduce-%d %s %016llx\n", op, name_of[dt], (unsigned long long)digest(out, red->acc_dtype, 1));
        }
    for (int i = 0; i < 2; i++) {
        const int dt = i ? TX_F64 : TX_F32;
        state = (uint64_t)i;
        for (int e = 0; e < N; e++) {
            const double v = ((double)(draw() >> 11) / 9007199254740992.0 - 0.5) * 9.0;
            const float w = (float)v;
            memcpy(in[0] + e * size_of[dt], i ? (const void *)&v : (const void *)&w, (size_t)size_of[dt]);
        }
        k->rows[i].softmax(out, in[0], N);
        printf("softmax %s %016llx\n", name_of[dt], (unsigned long long)digest(out, dt, N));
        k->rows[i].log_softmax(out, in[0], N);
        printf("log_softmax %s %016llx\n", name_of[dt], (unsigned long long)digest(out, dt, N));
        k->rows[i].layer_norm(out, in[0], N, NULL, NULL, 1e-5, NULL, NULL);
        printf("layer_norm %s %016llx\n", name_of[dt], (unsigned long long)digest(out, dt, N));
        k->rows[i].rms_norm(out, in[0], N, NULL, 1e-5, NULL);
        printf("rms_norm %s %016llx\n", name_of[dt], (unsigned long long)digest(out, dt, N));
    }
}

int main(void)
{
    if (exec_module(NULL) != 0 || the_capsule.pointer == NULL) {
        fprintf(stderr, "no kernel table\n");
        return 2;
    }
    const tx_kernels *k = the_capsule.pointer;
    if (k->nops != (int)(sizeof rows / sizeof *rows)) {
        fprintf(stderr, "%d rows in the kernels, %d in the table\n", k->nops, (int)(sizeof rows / sizeof *rows));
        return 2;
    }
    const int bad = elementwise_rows(k);
    other_families(k);
    return bad;
}
