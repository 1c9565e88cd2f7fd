/* Convolution loops for one floating type. Included by conv.h with TXV_T and TXV_N. */

#define FN(x) TXV_CAT(x, TXV_N)
#define T TXV_T

typedef T FN(txv_four) __attribute__((vector_size(4 * sizeof(T))));

/* Short runs, as the rows of small images are: four at a time. The barrier keeps the compiler
 * from making calls of memcpy and memset of the loops, which take longer than the rows. */
#define TXV_NO_CALL __asm__ volatile("" ::: "memory")

static inline void FN(txv_copy)(T *d, const T *src, int64_t n)
{
    for (; n >= 4; n -= 4, d += 4, src += 4) {
        memcpy(d, src, 4 * sizeof(T));
        TXV_NO_CALL;
    }
    if (n & 2) {
        memcpy(d, src, 2 * sizeof(T));
        d += 2;
        src += 2;
    }
    if (n & 1)
        *d = *src;
}

static inline void FN(txv_add)(T *d, const T *src, int64_t n)
{
    for (; n >= 4; n -= 4, d += 4, src += 4) {
        FN(txv_four) x, y;
        memcpy(&x, d, sizeof x);
        memcpy(&y, src, sizeof y);
        x += y;
        memcpy(d, &x, sizeof x);
    }
    for (; n > 0; n--) {
        *d++ += *src++;
        TXV_NO_CALL;
    }
}

static inline void FN(txv_zero)(T *d, int64_t n)
{
    for (; n > 0; n--) {
        *d++ = 0;
        TXV_NO_CALL;
    }
}

/* Columns of the positions p0..p1 of one image and group: dst[row k = (c, kd, kh, kw)][p - p0],
 * rows ld apart. */
static void FN(txv_im2col)(const txv_shape *s, const T *x, int64_t c0, int64_t channels, int64_t p0, int64_t p1, T *dst, int64_t ld)
{
    const int64_t plane = s->in[0] * s->in[1] * s->in[2], W = s->in[2], st = s->stride[2], width = s->out[2];
    const int64_t r0 = p0 / width, w00 = p0 - r0 * width, od0 = r0 / s->out[1], oh0 = r0 - od0 * s->out[1];
    for (int64_t c = c0; c < c0 + channels; c++) {
        const T *xc = x + c * plane;
        for (int64_t kd = 0; kd < s->k[0]; kd++)
            for (int64_t kh = 0; kh < s->k[1]; kh++)
                for (int64_t kw = 0; kw < s->k[2]; kw++, dst += ld) {
                    /* ow with 0 <= ow * stride + shift < W */
                    const int64_t shift = kw * s->dilation[2] - s->pad[2];
                    const int64_t first = shift >= 0 ? 0 : (-shift + st - 1) / st;
                    const int64_t last = W - shift <= 0 ? 0 : (W - shift + st - 1) / st;
                    T *d = dst;
                    int64_t od = od0, oh = oh0, w0 = w00;
                    for (int64_t p = p0; p < p1;) {
                        const int64_t w1 = width - w0 < p1 - p ? width : w0 + p1 - p;
                        const int64_t id = od * s->stride[0] - s->pad[0] + kd * s->dilation[0];
                        const int64_t ih = oh * s->stride[1] - s->pad[1] + kh * s->dilation[1];
                        int64_t a = w0 > first ? w0 : first, b = w1 < last ? w1 : last;
                        if (id < 0 || id >= s->in[0] || ih < 0 || ih >= s->in[1] || b < a)
                            a = b = w1;
                        const T *src = xc + (id * s->in[1] + ih) * W + shift;
                        FN(txv_zero)(d, a - w0);
                        if (st == 1) {
                            FN(txv_copy)(d + (a - w0), src + a, b - a);
                        } else {
                            for (int64_t w = a; w < b; w++)
                                d[w - w0] = src[w * st];
                        }
                        FN(txv_zero)(d + (b - w0), w1 - b);
                        d += w1 - w0;
                        p += w1 - w0;
                        w0 = 0;
                        if (++oh == s->out[1]) {
                            oh = 0;
                            od++;
                        }
                    }
                }
    }
}

/* The same walk the other way: x += columns. */
static void FN(txv_col2im)(const txv_shape *s, T *x, int64_t c0, int64_t channels, int64_t p0, int64_t p1, const T *src, int64_t ld)
{
    const int64_t plane = s->in[0] * s->in[1] * s->in[2], W = s->in[2], st = s->stride[2], width = s->out[2];
    const int64_t r0 = p0 / width, w00 = p0 - r0 * width, od0 = r0 / s->out[1], oh0 = r0 - od0 * s->out[1];
    for (int64_t c = c0; c < c0 + channels; c++) {
        T *xc = x + c * plane;
        for (int64_t kd = 0; kd < s->k[0]; kd++)
            for (int64_t kh = 0; kh < s->k[1]; kh++)
                for (int64_t kw = 0; kw < s->k[2]; kw++, src += ld) {
                    const int64_t shift = kw * s->dilation[2] - s->pad[2];
                    const int64_t first = shift >= 0 ? 0 : (-shift + st - 1) / st;
                    const int64_t last = W - shift <= 0 ? 0 : (W - shift + st - 1) / st;
                    const T *row = src;
                    int64_t od = od0, oh = oh0, w0 = w00;
                    for (int64_t p = p0; p < p1;) {
                        const int64_t w1 = width - w0 < p1 - p ? width : w0 + p1 - p;
                        const int64_t id = od * s->stride[0] - s->pad[0] + kd * s->dilation[0];
                        const int64_t ih = oh * s->stride[1] - s->pad[1] + kh * s->dilation[1];
                        const int64_t a = w0 > first ? w0 : first, b = w1 < last ? w1 : last;
                        if (id >= 0 && id < s->in[0] && ih >= 0 && ih < s->in[1] && b > a) {
                            T *d = xc + (id * s->in[1] + ih) * W + shift;
                            if (st == 1) {
                                FN(txv_add)(d + a, row + (a - w0), b - a);
                            } else {
                                for (int64_t w = a; w < b; w++)
                                    d[w * st] += row[w - w0];
                            }
                        }
                        row += w1 - w0;
                        p += w1 - w0;
                        w0 = 0;
                        if (++oh == s->out[1]) {
                            oh = 0;
                            od++;
                        }
                    }
                }
    }
}

/* ---- small images: a copy with a border of zeros makes every row of columns a plain copy ---- */

static void FN(txv_bordered)(const txv_shape *s, const T *x, int64_t channels, T *wide)
{
    const int64_t W = s->in[2], Wp = W + 2 * s->pad[2], Hp = s->in[1] + 2 * s->pad[1], Dp = s->in[0] + 2 * s->pad[0];
    memset(wide, 0, (size_t)(channels * Dp * Hp * Wp) * sizeof(T));
    for (int64_t c = 0; c < channels; c++)
        for (int64_t d = 0; d < s->in[0]; d++)
            for (int64_t h = 0; h < s->in[1]; h++, x += W)
                memcpy(wide + ((c * Dp + d + s->pad[0]) * Hp + h + s->pad[1]) * Wp + s->pad[2], x, (size_t)W * sizeof(T));
}

static void FN(txv_add_inner)(const txv_shape *s, const T *wide, int64_t channels, T *x)
{
    const int64_t W = s->in[2], Wp = W + 2 * s->pad[2], Hp = s->in[1] + 2 * s->pad[1], Dp = s->in[0] + 2 * s->pad[0];
    for (int64_t c = 0; c < channels; c++)
        for (int64_t d = 0; d < s->in[0]; d++)
            for (int64_t h = 0; h < s->in[1]; h++, x += W) {
                const T *from = wide + ((c * Dp + d + s->pad[0]) * Hp + h + s->pad[1]) * Wp + s->pad[2];
                for (int64_t w = 0; w < W; w++)
                    x[w] += from[w];
            }
}

/* BODY sees d, a row of the columns, and q, where it lies in the bordered copy; n elements each. */
#define TXV_ROWS(BODY)                                                                                              \
    for (int64_t c = 0; c < channels; c++)                                                                          \
        for (int64_t kd = 0; kd < s->k[0]; kd++)                                                                    \
            for (int64_t kh = 0; kh < s->k[1]; kh++)                                                                \
                for (int64_t kw = 0; kw < s->k[2]; kw++, cols += ld) {                                              \
                    T *d = cols;                                                                                    \
                    for (int64_t od = 0; od < s->out[0]; od++) {                                                    \
                        T *q = wide + ((c * Dp + od * s->stride[0] + kd * s->dilation[0]) * Hp + kh * s->dilation[1]) * Wp + \
                               kw * s->dilation[2];                                                                 \
                        for (int64_t oh = 0; oh < s->out[1]; oh++, d += n, q += step) { BODY }                      \
                    }                                                                                               \
                }

static void FN(txv_small_columns)(const txv_shape *s, T *wide, int64_t channels, T *cols, int64_t ld)
{
    const int64_t Wp = s->in[2] + 2 * s->pad[2], Hp = s->in[1] + 2 * s->pad[1], Dp = s->in[0] + 2 * s->pad[0];
    const int64_t n = s->out[2], step = s->stride[1] * Wp, sw = s->stride[2];
    if (sw != 1) {
        TXV_ROWS({ for (int64_t w = 0; w < n; w++) d[w] = q[w * sw]; })
    } else if (n == 4) {
        TXV_ROWS({ memcpy(d, q, 4 * sizeof(T)); })
    } else if (n == 8) {
        TXV_ROWS({ memcpy(d, q, 8 * sizeof(T)); })
    } else if (n == 16) {
        TXV_ROWS({ memcpy(d, q, 16 * sizeof(T)); })
    } else {
        TXV_ROWS({ for (int64_t w = 0; w < n; w++) d[w] = q[w]; })
    }
}

static void FN(txv_small_image)(const txv_shape *s, T *wide, int64_t channels, T *cols, int64_t ld)
{
    const int64_t Wp = s->in[2] + 2 * s->pad[2], Hp = s->in[1] + 2 * s->pad[1], Dp = s->in[0] + 2 * s->pad[0];
    const int64_t n = s->out[2], step = s->stride[1] * Wp, sw = s->stride[2];
    memset(wide, 0, (size_t)(channels * Dp * Hp * Wp) * sizeof(T));
    if (sw != 1) {
        TXV_ROWS({ for (int64_t w = 0; w < n; w++) q[w * sw] += d[w]; })
    } else if (n == 4) {
        TXV_ROWS({
            T t[4];
            for (int w = 0; w < 4; w++) t[w] = q[w] + d[w];
            memcpy(q, t, sizeof t);
        })
    } else if (n == 8) {
        TXV_ROWS({
            T t[8];
            for (int w = 0; w < 8; w++) t[w] = q[w] + d[w];
            memcpy(q, t, sizeof t);
        })
    } else {
        TXV_ROWS({ for (int64_t w = 0; w < n; w++) q[w] += d[w]; })
    }
}

#undef TXV_ROWS

/* dst[p][o] = src[o][p] for a block of positions: rows of dst are n long. */
static void FN(txv_transpose)(const T *src, int64_t rows, int64_t src_ld, int64_t cols, T *dst, int64_t dst_ld)
{
    for (int64_t i0 = 0; i0 < rows; i0 += 8) {
        const int64_t i1 = i0 + 8 < rows ? i0 + 8 : rows;
        for (int64_t j = 0; j < cols; j++)
            for (int64_t i = i0; i < i1; i++)
                dst[j * dst_ld + i] = src[i * src_ld + j];
    }
}

static void FN(txv_fill_rows)(T *y, int64_t rows, int64_t n, int64_t ld, const T *bias)
{
    for (int64_t o = 0; o < rows; o++) {
        const T b = bias[o];
        for (int64_t p = 0; p < n; p++)
            y[o * ld + p] = b;
    }
}

static void FN(txv_rows_from)(T *y, int64_t y_ld, const T *src, int64_t ld, int64_t rows, int64_t n, const T *bias)
{
    for (int64_t o = 0; o < rows; o++) {
        const T b = bias ? bias[o] : 0;
        for (int64_t p = 0; p < n; p++)
            y[o * y_ld + p] = src[o * ld + p] + b;
    }
}

/* Transposes a (k x o) sum of parts, which lie `step` apart and are added in order, into dw (o x k). */
static void FN(txv_fold)(const T *parts, int64_t step, int64_t count, int64_t k, int64_t o, int64_t ld, T *dw)
{
    for (int64_t j = 0; j < o; j++)
        for (int64_t i = 0; i < k; i++) {
            T sum = parts[i * ld + j];
            for (int64_t q = 1; q < count; q++)
                sum += parts[q * step + i * ld + j];
            dw[j * k + i] = sum;
        }
}

#undef TXV_NO_CALL
#undef FN
#undef T
