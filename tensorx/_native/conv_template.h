/* Convolution loops for one floating type. Included by conv.h with TXV_T and TXV_N. */

#define FN(x) TXV_CAT(x, TXV_N)
#define T TXV_T

/* Columns of the positions p0..p1 of one image and group: dst[row k = (c, kd, kh, kw)][p - p0],
 * rows ld apart. */
static void FN(txv_im2col)(const txv_shape *s, const T *x, int64_t c0, int64_t channels, int64_t p0, int64_t p1, T *dst, int64_t ld)
{
    const int64_t plane = s->in[0] * s->in[1] * s->in[2];
    for (int64_t c = c0; c < c0 + channels; c++) {
        const T *xc = x + c * plane;
        for (int64_t kd = 0; kd < s->k[0]; kd++)
            for (int64_t kh = 0; kh < s->k[1]; kh++)
                for (int64_t kw = 0; kw < s->k[2]; kw++, dst += ld) {
                    /* ow with 0 <= ow * stride + shift < width */
                    const int64_t shift = kw * s->dilation[2] - s->pad[2], st = s->stride[2], W = s->in[2];
                    const int64_t first = shift >= 0 ? 0 : (-shift + st - 1) / st;
                    const int64_t last = W - shift <= 0 ? 0 : (W - shift + st - 1) / st;
                    T *d = dst;
                    for (int64_t p = p0; p < p1;) {
                        const int64_t r = p / s->out[2], w0 = p - r * s->out[2];
                        const int64_t w1 = s->out[2] - w0 < p1 - p ? s->out[2] : w0 + p1 - p;
                        const int64_t od = r / s->out[1], oh = r - od * s->out[1];
                        const int64_t id = od * s->stride[0] - s->pad[0] + kd * s->dilation[0];
                        const int64_t ih = oh * s->stride[1] - s->pad[1] + kh * s->dilation[1];
                        int64_t a = w0 > first ? w0 : first, b = w1 < last ? w1 : last, w = w0;
                        if (id < 0 || id >= s->in[0] || ih < 0 || ih >= s->in[1] || b < a)
                            a = b = w1;
                        for (; w < a; w++)
                            *d++ = 0;
                        const T *src = xc + (id * s->in[1] + ih) * W + shift;
                        if (st == 1) {
                            for (; w < b; w++)
                                *d++ = src[w];
                        } else {
                            for (; w < b; w++)
                                *d++ = src[w * st];
                        }
                        for (; w < w1; w++)
                            *d++ = 0;
                        p += w1 - w0;
                    }
                }
    }
}

/* The same walk the other way: x += columns. */
static void FN(txv_col2im)(const txv_shape *s, T *x, int64_t c0, int64_t channels, int64_t p0, int64_t p1, const T *src, int64_t ld)
{
    const int64_t plane = s->in[0] * s->in[1] * s->in[2];
    for (int64_t c = c0; c < c0 + channels; c++) {
        T *xc = x + c * plane;
        for (int64_t kd = 0; kd < s->k[0]; kd++)
            for (int64_t kh = 0; kh < s->k[1]; kh++)
                for (int64_t kw = 0; kw < s->k[2]; kw++, src += ld) {
                    const int64_t shift = kw * s->dilation[2] - s->pad[2], st = s->stride[2], W = s->in[2];
                    const int64_t first = shift >= 0 ? 0 : (-shift + st - 1) / st;
                    const int64_t last = W - shift <= 0 ? 0 : (W - shift + st - 1) / st;
                    const T *row = src;
                    for (int64_t p = p0; p < p1;) {
                        const int64_t r = p / s->out[2], w0 = p - r * s->out[2];
                        const int64_t w1 = s->out[2] - w0 < p1 - p ? s->out[2] : w0 + p1 - p;
                        const int64_t od = r / s->out[1], oh = r - od * s->out[1];
                        const int64_t id = od * s->stride[0] - s->pad[0] + kd * s->dilation[0];
                        const int64_t ih = oh * s->stride[1] - s->pad[1] + kh * s->dilation[1];
                        const int64_t a = w0 > first ? w0 : first, b = w1 < last ? w1 : last;
                        if (id >= 0 && id < s->in[0] && ih >= 0 && ih < s->in[1] && b > a) {
                            T *d = xc + (id * s->in[1] + ih) * W + shift;
                            const T *q = row - w0;
                            if (st == 1) {
                                for (int64_t w = a; w < b; w++)
                                    d[w] += q[w];
                            } else {
                                for (int64_t w = a; w < b; w++)
                                    d[w * st] += q[w];
                            }
                        }
                        row += w1 - w0;
                        p += w1 - w0;
                    }
                }
    }
}

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

#undef FN
#undef T
