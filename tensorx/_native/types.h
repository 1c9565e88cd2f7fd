/* The engine's data: storages (who owns which bytes) and nodes (values, pending or not).
 *
 * Everything here is touched with the GIL held, except the members that are said to be
 * atomic: a storage may be released by a thread that holds no GIL (a DLPack deleter). */
#ifndef TX_TYPES_H
#define TX_TYPES_H

#include <stdint.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "kernel_abi.h"

#define TX_MAXDIM 64

typedef struct tx_storage tx_storage;
typedef struct tx_node tx_node;
typedef struct tx_save tx_save;
typedef struct tx_edge tx_edge;

/* One scalar in the register format of its dtype (halves as float). */
typedef union tx_scalar {
    double d[2];
    float f[4];
    int64_t i;
    uint64_t u;
    int32_t i32;
    uint32_t u32;
    int16_t i16;
    uint16_t u16;
    int8_t i8;
    uint8_t u8;
    unsigned char raw[16];
} tx_scalar;

enum {
    TX_ST_FOREIGN = 1,   /* memory of somebody else, who may write it at any time */
    TX_ST_READONLY = 2,
    TX_ST_KEPT = 4,      /* only pending nodes keep it alive: counted in tx_kept_bytes */
    TX_ST_BORROWED = 8   /* a device buffer: freed through the backend, needs the GIL */
};

struct tx_storage {
    int32_t owners;          /* atomic: leaf nodes, exports, programs */
    int32_t exports;         /* atomic: how many foreign holders may read or write it */
    int32_t device;
    uint32_t flags;
    char *ptr;               /* host address; for a device buffer its shared contents */
    size_t nbytes, capacity;
    uint64_t version;
    uint64_t serial;         /* never repeated in a process */
    tx_node *leaves;         /* materialised nodes on this storage */
    int32_t reading, writing; /* programs under way without the GIL */
    void (*release)(void *ctx); /* foreign memory: called once, without the GIL */
    void *ctx;
    void *handle;            /* device buffer */
    void *history;           /* PyObject* of autograd, or NULL */
    void *site;              /* PyObject* of the recorder, or NULL */
    tx_storage *next;        /* pending-free list, free list */
};

struct tx_edge {
    tx_node *owner;
    tx_edge *next, **pprev;
};

enum { TX_LEAF = 0, TX_EW = 1, TX_CAST = 2, TX_MOVE = 3, TX_ASSIGN = 4, TX_LAZY = 5 };

enum {
    TX_N_LINEAR = 1,   /* everything below reads memory in the order the result is stored in */
    TX_N_BUSY = 2,     /* a program of some thread is computing it */
    TX_N_PEND = 4,     /* in the list of pending nodes */
    TX_N_FAILED = 8,   /* its value was lost (a forked child, a device fault) */
    TX_N_ASKING = 32,  /* an assignment whose base's other readers are being evaluated */
    TX_N_ABOVE = 64,   /* an assignment, or computed from one: a program of its own */
    TX_N_LEFT = 128    /* was computed on the way and not stored: backward computes it again */
};

/* One value kept for backward; a node lists those that keep it. */
struct tx_save {
    tx_node *n;
    uint64_t version;        /* of the storage when it was saved */
    void *owner;             /* the Node or Saved that it lies in, or NULL */
    tx_save *next, **pprev;
};

struct tx_node {
    int32_t refs;      /* handles + saves + edges of consumers + holds of programs */
    int32_t handles;   /* Tensor objects */
    int32_t saves;     /* values kept for backward */
    int32_t device;
    uint8_t kind, dtype, odtype, nin; /* odtype: dtype of the operands of an elementwise op */
    uint8_t ndim, flags;
    uint16_t op;
    int32_t cost;      /* pending nodes below, shared ones counted repeatedly */
    int64_t numel;
    int64_t offset;    /* elements, leaves only */
    int64_t *shape, *strides; /* ndim each; elements */
    tx_storage *st;
    tx_node *in[TX_MAX_OPERANDS];
    tx_edge edge[TX_MAX_OPERANDS];
    tx_edge *consumers;
    tx_node *leaf_next, **leaf_pprev;
    tx_node *pend_next, *pend_prev;
    tx_node *dead;     /* stack of nodes that are being freed */
    tx_save *saved;    /* list of the saves */
    void *site;        /* PyObject* of the recorder, or NULL */
    uint64_t epoch;    /* planner: belongs to the program of this number */
    int32_t idx;       /* planner: position */
    int32_t uses;      /* planner: edges from inside the program */
    int64_t inl[8];
    tx_scalar sc[TX_MAX_OPERANDS];
};

/* ---- atomics -------------------------------------------------------------------- */

static inline void tx_st_own(tx_storage *s) { __atomic_fetch_add(&s->owners, 1, __ATOMIC_RELAXED); }
static inline int32_t tx_st_owners(const tx_storage *s) { return __atomic_load_n(&s->owners, __ATOMIC_ACQUIRE); }
static inline void tx_st_export(tx_storage *s) { __atomic_fetch_add(&s->exports, 1, __ATOMIC_RELAXED); }
static inline int32_t tx_st_exports(const tx_storage *s) { return __atomic_load_n(&s->exports, __ATOMIC_ACQUIRE); }

static tx_storage *tx_pending_free; /* atomic stack of storages with no owner */

/* Gives up one ownership: takes no lock, needs no GIL, never fails. */
static inline void tx_st_release(tx_storage *s) {
    if (__atomic_sub_fetch(&s->owners, 1, __ATOMIC_ACQ_REL) == 0) {
        tx_storage *head = __atomic_load_n(&tx_pending_free, __ATOMIC_RELAXED);
        do {
            s->next = head;
        } while (!__atomic_compare_exchange_n(&tx_pending_free, &head, s, 1, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
    }
}

static inline void tx_st_unexport(tx_storage *s) {
    __atomic_fetch_sub(&s->exports, 1, __ATOMIC_ACQ_REL);
    tx_st_release(s);
}

static inline tx_storage *tx_take_pending_free(void) {
    if (__atomic_load_n(&tx_pending_free, __ATOMIC_RELAXED) == NULL)
        return NULL;
    return __atomic_exchange_n(&tx_pending_free, NULL, __ATOMIC_ACQUIRE);
}

/* ---- dtype facts ------------------------------------------------------------------ */

static const int8_t tx_item_size[TX_NDT] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16};
static const int8_t tx_item_log2[TX_NDT] = {0, 0, 1, 2, 3, 0, 1, 2, 3, 1, 1, 2, 3, 3, 4};

/* dtype of the register that holds values of a dtype: halves are computed as float32 */
static inline int tx_reg_dtype(int dt) { return (dt == TX_F16 || dt == TX_BF16) ? TX_F32 : dt; }
static inline int tx_is_half(int dt) { return dt == TX_F16 || dt == TX_BF16; }

/* ---- layout ------------------------------------------------------------------------ */

static inline int64_t tx_numel(int nd, const int64_t *shape) {
    int64_t n = 1;
    for (int i = 0; i < nd; i++) n *= shape[i];
    return n;
}

/* Product of a shape, or -1 where it does not fit in int64 bytes. */
static inline int64_t tx_numel_checked(int nd, const int64_t *shape, int64_t itemsize) {
    int64_t n = 1;
    int zero = 0;
    for (int i = 0; i < nd; i++) zero |= shape[i] == 0;
    for (int i = 0; i < nd; i++) {
        int64_t d = zero && shape[i] == 0 ? 1 : shape[i];
        if (__builtin_mul_overflow(n, d, &n)) return -1;
    }
    int64_t bytes;
    if (__builtin_mul_overflow(n, itemsize, &bytes) || bytes > (int64_t)1 << 62) return -1;
    return zero ? 0 : n;
}

static inline void tx_c_strides(int nd, const int64_t *shape, int64_t *strides) {
    int64_t s = 1;
    for (int i = nd - 1; i >= 0; i--) {
        strides[i] = s;
        s *= shape[i] > 1 ? shape[i] : 1;
    }
}

static inline int tx_same_shape(int nd, const int64_t *a, const int64_t *b) {
    for (int i = 0; i < nd; i++)
        if (a[i] != b[i]) return 0;
    return 1;
}

/* Equal strides where it matters (axes longer than one). */
static inline int tx_same_strides(int nd, const int64_t *shape, const int64_t *a, const int64_t *b) {
    for (int i = 0; i < nd; i++)
        if (shape[i] > 1 && a[i] != b[i]) return 0;
    return 1;
}

static inline int tx_is_c_dense(int nd, const int64_t *shape, const int64_t *strides) {
    int64_t s = 1;
    for (int i = nd - 1; i >= 0; i--) {
        if (shape[i] > 1) {
            if (strides[i] != s) return 0;
            s *= shape[i];
        }
    }
    return 1;
}

/* Dense in some order of the axes: positive strides that fill numel elements. */
static inline int tx_is_dense(int nd, const int64_t *shape, const int64_t *strides) {
    if (tx_is_c_dense(nd, shape, strides)) return 1;
    int64_t want = 1;
    uint64_t done = 0;
    for (int k = 0; k < nd; k++) {
        int found = -1;
        for (int i = 0; i < nd; i++)
            if (!((done >> i) & 1) && shape[i] > 1 && strides[i] == want) { found = i; break; }
        if (found < 0) {
            for (int i = 0; i < nd; i++)
                if (!((done >> i) & 1) && shape[i] > 1) return 0;
            return 1;
        }
        done |= (uint64_t)1 << found;
        want *= shape[found];
    }
    return 1;
}

/* First and last byte that a view touches, relative to the start of its storage. */
static inline void tx_extent(int nd, const int64_t *shape, const int64_t *strides, int64_t offset,
                             int64_t isz, int64_t *lo, int64_t *hi) {
    int64_t a = offset, b = offset;
    for (int i = 0; i < nd; i++) {
        int64_t span = (shape[i] - 1) * strides[i];
        if (span < 0) a += span; else b += span;
    }
    *lo = a * isz;
    *hi = (b + 1) * isz; /* exclusive */
}

#endif
