/* The DLPack exchange structures (DLPack 1.0 and the unversioned form before it), as the
 * specification lays them out. */
#ifndef TX_DLPACK_H
#define TX_DLPACK_H

#include <stdint.h>
#include <stdlib.h>

enum { TXDL_CPU = 1, TXDL_METAL = 8 };
enum { TXDL_INT = 0, TXDL_UINT = 1, TXDL_FLOAT = 2, TXDL_BFLOAT = 4, TXDL_COMPLEX = 5, TXDL_BOOL = 6 };
#define TXDL_READ_ONLY ((uint64_t)1)
#define TXDL_COPIED ((uint64_t)2)

typedef struct txdl_tensor {
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} txdl_tensor;

typedef struct txdl_managed {
    txdl_tensor t;
    void *ctx;
    void (*deleter)(struct txdl_managed *);
} txdl_managed;

typedef struct txdl_versioned {
    uint32_t major, minor;
    void *ctx;
    void (*deleter)(struct txdl_versioned *);
    uint64_t flags;
    txdl_tensor t;
} txdl_versioned;

/* ctx of our exports is the storage: no lock and no GIL is needed to give it up. */
static void txdl_free_managed(txdl_managed *m) {
    tx_st_unexport((tx_storage *)m->ctx);
    free(m->t.shape);
    free(m);
}

static void txdl_free_versioned(txdl_versioned *m) {
    tx_st_unexport((tx_storage *)m->ctx);
    free(m->t.shape);
    free(m);
}

static void txdl_release_managed(void *p) {
    txdl_managed *m = (txdl_managed *)p;
    if (m->deleter) m->deleter(m);
}

static void txdl_release_versioned(void *p) {
    txdl_versioned *m = (txdl_versioned *)p;
    if (m->deleter) m->deleter(m);
}

#endif
