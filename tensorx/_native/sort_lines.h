/* Sorting of one line, for a key type and a position type; see sort.h. Included once for each pair. */

#define KEY TX_SORT_KEY
#define AT TX_SORT_AT
#define N(x) TX_SORT_NAME(x)

/* Keys of the numbers of a line, positions of the numbers in `at`; NaN are left out and their positions put at the
 * end of `at`, in order. Returns how many numbers there are; *odd tells whether keys do not give back the elements. */
static int64_t N(tx_sort_keys)(const tx_sort_job *j, const char *src, KEY *key, AT *at, int *odd)
{
    const int64_t n = j->n, st = j->src_stride;
    const KEY flip = j->descending ? (KEY)~(KEY)0 : 0;
    int64_t m = 0, bad = 0;
    int zero = 0;
#define PLAIN(T, EXPR, MASK)                                                                                           \
    {                                                                                                                  \
        const T *p = (const T *)src;                                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            T x = p[i * st];                                                                                           \
            key[i] = (KEY)(((KEY)(EXPR) ^ flip) & (KEY)(MASK));                                                        \
        }                                                                                                              \
        if (at)                                                                                                        \
            for (int64_t i = 0; i < n; i++) at[i] = (AT)i;                                                             \
        m = n;                                                                                                         \
        break;                                                                                                         \
    }
#define FLOATS(T, CALL, NEGZERO, MASK)                                                                                 \
    {                                                                                                                  \
        const T *p = (const T *)src;                                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            T x = p[i * st];                                                                                           \
            int nan;                                                                                                   \
            KEY k = (KEY)(CALL);                                                                                       \
            zero |= x == (T)(NEGZERO);                                                                                 \
            if (TX_UNLIKELY(nan)) {                                                                                    \
                bad++;                                                                                                 \
                if (at) at[n - bad] = (AT)i;                                                                           \
            } else {                                                                                                   \
                if (at) at[m] = (AT)i;                                                                                 \
                key[m++] = (KEY)((k ^ flip) & (KEY)(MASK));                                                            \
            }                                                                                                          \
        }                                                                                                              \
        break;                                                                                                         \
    }
    switch (j->dtype) {
    case TX_BOOL: PLAIN(uint8_t, x != 0, 0xff)
    case TX_U8: PLAIN(uint8_t, x, 0xff)
    case TX_U16: PLAIN(uint16_t, x, 0xffff)
    case TX_U32: PLAIN(uint32_t, x, 0xffffffffu)
    case TX_U64: PLAIN(uint64_t, x, ~(uint64_t)0)
    case TX_I8: PLAIN(uint8_t, x ^ 0x80u, 0xff)
    case TX_I16: PLAIN(uint16_t, x ^ 0x8000u, 0xffff)
    case TX_I32: PLAIN(uint32_t, x ^ 0x80000000u, 0xffffffffu)
    case TX_I64: PLAIN(uint64_t, x ^ 0x8000000000000000u, ~(uint64_t)0)
    case TX_F16: FLOATS(uint16_t, tx_sort_bits16(x, 0x7c00u, &nan), 0x8000u, 0xffff)
    case TX_BF16: FLOATS(uint16_t, tx_sort_bits16(x, 0x7f80u, &nan), 0x8000u, 0xffff)
    case TX_F32: FLOATS(uint32_t, tx_sort_bits32(x, &nan), 0x80000000u, 0xffffffffu)
    case TX_F64: FLOATS(uint64_t, tx_sort_bits64(x, &nan), 0x8000000000000000u, ~(uint64_t)0)
    default: break;
    }
#undef PLAIN
#undef FLOATS
    if (at) /* their positions were written from the end */
        for (int64_t a = n - bad, b = n - 1; a < b; a++, b--) {
            AT t = at[a];
            at[a] = at[b];
            at[b] = t;
        }
    *odd = zero || bad;
    return m;
}

/* Sorts m keys, and positions with them where there are any; the result is in *key and *at. */
static void N(tx_sort_merge)(int64_t m, KEY **key, AT **at, KEY *spare, AT *spare_at)
{
    KEY *k = *key;
    AT *a = *at;
    for (int64_t s = 0; s < m; s += TX_SORT_INSERTION) {
        int64_t e = s + TX_SORT_INSERTION < m ? s + TX_SORT_INSERTION : m;
        for (int64_t i = s + 1; i < e; i++) {
            KEY x = k[i];
            AT xa = a ? a[i] : 0;
            int64_t p = i;
            for (; p > s && k[p - 1] > x; p--) {
                k[p] = k[p - 1];
                if (a) a[p] = a[p - 1];
            }
            k[p] = x;
            if (a) a[p] = xa;
        }
    }
    for (int64_t run = TX_SORT_INSERTION; run < m; run *= 2) {
        for (int64_t s = 0; s < m; s += 2 * run) {
            int64_t mid = s + run < m ? s + run : m, e = s + 2 * run < m ? s + 2 * run : m;
            int64_t l = s, r = mid, o = s;
            while (l < mid && r < e) {
                int right = k[r] < k[l];
                int64_t from = right ? r : l;
                spare[o] = k[from];
                if (a) spare_at[o] = a[from];
                o++;
                r += right;
                l += !right;
            }
            for (; l < mid; l++, o++) {
                spare[o] = k[l];
                if (a) spare_at[o] = a[l];
            }
            for (; r < e; r++, o++) {
                spare[o] = k[r];
                if (a) spare_at[o] = a[r];
            }
        }
        KEY *t = k;
        k = spare;
        spare = t;
        AT *ta = a;
        a = spare_at;
        spare_at = ta;
    }
    *key = k;
    *at = a;
}

static void N(tx_sort_radix)(const tx_sort_job *j, int64_t m, int bits, KEY **key, AT **at, KEY *spare, AT *spare_at)
{
    enum { DIGITS = (int)sizeof(KEY) };
    int64_t count[DIGITS][256];
    KEY *k = *key;
    AT *a = *at;
    const int digits = bits / 8;
    memset(count, 0, sizeof count);
    for (int64_t i = 0; i < m; i++) {
        KEY x = k[i];
        for (int d = 0; d < DIGITS; d++) count[d][(x >> (8 * d)) & 255]++;
    }
    for (int d = 0; d < digits && !tx_sort_stop(j); d++) {
        int64_t *c = count[d], sum = 0;
        if (c[(k[0] >> (8 * d)) & 255] == m) continue; /* one digit throughout */
        for (int v = 0; v < 256; v++) {
            int64_t t = c[v];
            c[v] = sum;
            sum += t;
        }
        if (a)
            for (int64_t i = 0; i < m; i++) {
                int64_t p = c[(k[i] >> (8 * d)) & 255]++;
                spare[p] = k[i];
                spare_at[p] = a[i];
            }
        else
            for (int64_t i = 0; i < m; i++) spare[c[(k[i] >> (8 * d)) & 255]++] = k[i];
        KEY *t = k;
        k = spare;
        spare = t;
        AT *ta = a;
        a = spare_at;
        spare_at = ta;
    }
    *key = k;
    *at = a;
}

/* Elements from keys: the inverse of tx_sort_keys where nothing was odd. */
static void N(tx_sort_back)(const tx_sort_job *j, const KEY *key, char *values)
{
    const int64_t n = j->n, st = j->out_stride;
    const KEY flip = j->descending ? (KEY)~(KEY)0 : 0;
#define BACK(T, EXPR)                                                                                                  \
    {                                                                                                                  \
        T *p = (T *)values;                                                                                            \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            T k = (T)(key[i] ^ flip);                                                                                  \
            p[i * st] = (T)(EXPR);                                                                                     \
        }                                                                                                              \
        break;                                                                                                         \
    }
    switch (j->dtype) {
    case TX_BOOL: BACK(uint8_t, k & 1)
    case TX_U8: BACK(uint8_t, k)
    case TX_U16: BACK(uint16_t, k)
    case TX_U32: BACK(uint32_t, k)
    case TX_U64: BACK(uint64_t, k)
    case TX_I8: BACK(uint8_t, k ^ 0x80u)
    case TX_I16: BACK(uint16_t, k ^ 0x8000u)
    case TX_I32: BACK(uint32_t, k ^ 0x80000000u)
    case TX_I64: BACK(uint64_t, k ^ 0x8000000000000000u)
    case TX_F16:
    case TX_BF16: BACK(uint16_t, (k & 0x8000u) ? (uint32_t)k & 0x7fffu : ~(uint32_t)k)
    case TX_F32: BACK(uint32_t, (k & 0x80000000u) ? k & 0x7fffffffu : ~k)
    case TX_F64: BACK(uint64_t, (k & 0x8000000000000000u) ? k & 0x7fffffffffffffffu : ~k)
    default: break;
    }
#undef BACK
}

static void N(tx_sort_line)(const tx_sort_job *j, const char *src, char *values, int64_t *order, char *work)
{
    const int64_t n = j->n, st = j->src_stride, ot = j->out_stride;
    KEY *key = (KEY *)work, *spare = key + n;
    AT *at = (AT *)(spare + n), *spare_at = at + n, *nan_at = at;
    int odd = 0;
    if (!order) at = spare_at = NULL;
    int64_t m = N(tx_sort_keys)(j, src, key, at, &odd);
    if (!order && odd) {
        at = nan_at;
        spare_at = at + n;
        m = N(tx_sort_keys)(j, src, key, at, &odd);
    }
    if (m < TX_SORT_MERGE) N(tx_sort_merge)(m, &key, &at, spare, spare_at);
    else N(tx_sort_radix)(j, m, tx_sort_key_bits(j->isz), &key, &at, spare, spare_at);
    if (!at) {
        N(tx_sort_back)(j, key, values);
        return;
    }
    for (int64_t i = m; i < n; i++) at[i] = nan_at[i];
    if (order)
        for (int64_t i = 0; i < n; i++) order[i * ot] = (int64_t)at[i];
    if (values) switch (j->isz) {
        case 1:
            for (int64_t i = 0; i < n; i++) ((uint8_t *)values)[i * ot] = ((const uint8_t *)src)[(int64_t)at[i] * st];
            break;
        case 2:
            for (int64_t i = 0; i < n; i++) ((uint16_t *)values)[i * ot] = ((const uint16_t *)src)[(int64_t)at[i] * st];
            break;
        case 4:
            for (int64_t i = 0; i < n; i++) ((uint32_t *)values)[i * ot] = ((const uint32_t *)src)[(int64_t)at[i] * st];
            break;
        default:
            for (int64_t i = 0; i < n; i++) ((uint64_t *)values)[i * ot] = ((const uint64_t *)src)[(int64_t)at[i] * st];
        }
}

#undef KEY
#undef AT
#undef N
#undef TX_SORT_KEY
#undef TX_SORT_AT
#undef TX_SORT_NAME
