# Declarations of the C side: kernels, allocator, pool, types, block interpreter.

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.stddef cimport size_t, ptrdiff_t
from libc.string cimport memcpy, memset, memmove, strcmp
from libc.stdlib cimport malloc, free, realloc, calloc

cdef extern from "kernel_abi.h" nogil:
    enum:
        TX_KERNEL_ABI
        TX_BOOL, TX_I8, TX_I16, TX_I32, TX_I64, TX_U8, TX_U16, TX_U32, TX_U64
        TX_F16, TX_BF16, TX_F32, TX_F64, TX_C64, TX_C128, TX_NDT
        TX_MAX_OPERANDS
        TX_RED_SUM, TX_RED_PROD, TX_RED_MAX, TX_RED_MIN, TX_RED_ANY, TX_RED_ALL
        TX_RED_ARGMAX, TX_RED_ARGMIN, TX_RED_SUMSQ, TX_RED_SUMABS, TX_NRED
    ctypedef void (*tx_ew_fn)(void *, const void *const *, ptrdiff_t, unsigned) noexcept nogil
    ctypedef void (*tx_cast_fn)(void *, const void *, ptrdiff_t) noexcept nogil
    ctypedef void (*tx_round_fn)(float *, ptrdiff_t) noexcept nogil
    ctypedef void (*tx_move_fn)(void *, ptrdiff_t, const void *, ptrdiff_t, ptrdiff_t) noexcept nogil
    ctypedef void (*tx_move2_fn)(void *, ptrdiff_t, ptrdiff_t, const void *, ptrdiff_t, ptrdiff_t, ptrdiff_t, ptrdiff_t) noexcept nogil
    ctypedef struct tx_red_state:
        int64_t index
    ctypedef struct tx_red:
        int32_t acc_dtype, vacc_bytes, vaux_bytes, ok
        void (*fold)(tx_red_state *, const void *, ptrdiff_t, int64_t) noexcept nogil
        void (*merge)(tx_red_state *, const tx_red_state *) noexcept nogil
        void (*finish)(const tx_red_state *, void *) noexcept nogil
    ctypedef struct tx_rows:
        void (*softmax)(void *, const void *, ptrdiff_t) noexcept nogil
        void (*log_softmax)(void *, const void *, ptrdiff_t) noexcept nogil
        void (*logsumexp)(void *, const void *, ptrdiff_t) noexcept nogil
        void (*layer_norm)(void *, const void *, ptrdiff_t, const void *, const void *, double, void *, void *) noexcept nogil
        void (*rms_norm)(void *, const void *, ptrdiff_t, const void *, double, void *) noexcept nogil
    ctypedef struct tx_kernels:
        int32_t abi, nops
        uint64_t table_hash
        const char *isa
        const tx_ew_fn *ew
        tx_cast_fn cast[15][15]
        tx_round_fn round_half[2]
        tx_move_fn move[5]
        tx_move2_fn move2[5]
        tx_red red[10][15]
        tx_rows rows[2]
        const void *gemm
        const void *extra

cdef extern from "alloc.h" nogil:
    ctypedef struct tx_mem_stats:
        int64_t requested, allocations, live, peak, cached, system, scratch, scratch_peak, limit, cap
    void *tx_alloc(size_t nbytes, size_t *capacity)
    void tx_free(void *p, size_t nbytes, size_t capacity)
    void *tx_scratch_alloc(size_t nbytes)
    void tx_scratch_free(void *p, size_t nbytes)
    void tx_empty_cache()
    void tx_set_limit(int64_t)
    void tx_set_cap(int64_t)
    void tx_reset_peak()
    void tx_get_stats(tx_mem_stats *)
    int64_t tx_thread_requested()
    int64_t tx_thread_allocations()
    void tx_count_request(size_t)
    void tx_count_thread(size_t)

cdef extern from "pool.h" nogil:
    ctypedef void (*tx_job_fn)(void *, int64_t) noexcept nogil
    void tx_parallel_for(int64_t, tx_job_fn, void *, double)
    int tx_get_num_threads()
    void tx_set_num_threads(int)
    int tx_pool_default_threads()
    void tx_pool_shutdown()
    int tx_cancel_requested()
    void tx_cancel_set(int)

cdef extern from "types.h" nogil:
    enum:
        TX_MAXDIM
        TX_ST_FOREIGN, TX_ST_READONLY, TX_ST_KEPT, TX_ST_BORROWED
        TX_LEAF, TX_EW, TX_CAST, TX_MOVE, TX_ASSIGN, TX_LAZY
        TX_N_LINEAR, TX_N_BUSY, TX_N_PEND, TX_N_FAILED, TX_N_ASKING, TX_N_ABOVE, TX_N_LEFT
    ctypedef union tx_scalar:
        double d[2]
        float f[4]
        int64_t i
        uint64_t u
        int32_t i32
        uint32_t u32
        int16_t i16
        uint16_t u16
        int8_t i8
        uint8_t u8
        unsigned char raw[16]
    ctypedef struct tx_node
    ctypedef struct tx_edge
    ctypedef struct tx_save:
        tx_node *n
        uint64_t version
        void *owner
        tx_save *next
        tx_save **pprev
    ctypedef struct tx_storage:
        int32_t owners, exports, device
        uint32_t flags
        char *ptr
        size_t nbytes, capacity
        uint64_t version, serial
        tx_node *leaves
        int32_t reading, writing
        void (*release)(void *) noexcept nogil
        void *ctx
        void *handle
        void *history
        void *site
        tx_storage *next
    ctypedef struct tx_edge:
        tx_node *owner
        tx_edge *next
        tx_edge **pprev
    ctypedef struct tx_node:
        int32_t refs, handles, saves, device
        uint8_t kind, dtype, odtype, nin, ndim, flags
        uint16_t op
        int32_t cost
        int64_t numel, offset
        int64_t *shape
        int64_t *strides
        tx_storage *st
        tx_node *inp "in"[4]
        tx_edge edge[4]
        tx_edge *consumers
        tx_node *leaf_next
        tx_node **leaf_pprev
        tx_node *pend_next
        tx_node *pend_prev
        tx_node *dead
        tx_save *saved
        void *site
        uint64_t epoch
        int32_t idx, uses
        int64_t inl[8]
        tx_scalar sc[4]
    void tx_st_own(tx_storage *)
    int32_t tx_st_owners(const tx_storage *)
    void tx_st_export(tx_storage *)
    int32_t tx_st_exports(const tx_storage *)
    void tx_st_release(tx_storage *)
    void tx_st_unexport(tx_storage *)
    tx_storage *tx_take_pending_free()
    const int8_t tx_item_size[15]
    const int8_t tx_item_log2[15]
    int tx_reg_dtype(int)
    int tx_is_half(int)
    int64_t tx_numel(int, const int64_t *)
    int64_t tx_numel_checked(int, const int64_t *, int64_t)
    void tx_c_strides(int, const int64_t *, int64_t *)
    int tx_same_shape(int, const int64_t *, const int64_t *)
    int tx_same_strides(int, const int64_t *, const int64_t *, const int64_t *)
    int tx_is_c_dense(int, const int64_t *, const int64_t *)
    int tx_is_dense(int, const int64_t *, const int64_t *)
    void tx_extent(int, const int64_t *, const int64_t *, int64_t, int64_t, int64_t *, int64_t *)

cdef extern from "overlap.h" nogil:
    int tx_views_overlap(int, const int64_t *, const int64_t *, int64_t, int64_t,
                         int, const int64_t *, const int64_t *, int64_t, int64_t)
    int tx_view_overlaps_itself(int, const int64_t *, const int64_t *)

cdef extern from "copy_nd.h" nogil:
    void tx_copy_nd(int, const int64_t *, char *, const int64_t *, const char *, const int64_t *, int, tx_move2_fn)

cdef extern from "vm.h" nogil:
    enum:
        TX_MAXREG, TX_MAXINS, TX_MAXLAY, TX_MAXSLOT, TX_CHUNK
        TX_R_STEP, TX_R_SLOT, TX_R_ROW
        TX_I_EW, TX_I_CAST, TX_I_ROUND, TX_I_COPY, TX_I_GATHER, TX_I_SCATTER
    ctypedef struct tx_reg:
        char *base
        int64_t step
        int32_t kind, ref
    ctypedef union tx_ins_fn:
        tx_ew_fn ew
        tx_cast_fn cast
        tx_round_fn round
        tx_move_fn move
    ctypedef struct tx_ins:
        uint8_t kind, nsrc, mask, aux
        int16_t dst
        int16_t src[4]
        int16_t lay
        tx_ins_fn fn
    ctypedef struct tx_lay:
        char *base
        int64_t stride[64]
    ctypedef struct tx_prog:
        tx_prog *next
        int64_t numel, inner
        int32_t ndim, block, rowmode, nreg, nins, nlay, nslot, slot_bytes, npf
        double ns_per_elem
        int64_t dim[64]
        tx_reg reg[704]
        tx_ins ins[704]
        int16_t pf[704]
        tx_lay lay[288]
        tx_scalar cst[704]
    char *tx_thread_scratch(size_t)
    size_t tx_scratch_need(const tx_prog *)
    void tx_run(const tx_prog *)

cdef extern from "reduce.h" nogil:
    enum:
        TX_RED_BLOCK
    ctypedef struct tx_reduce_job:
        const tx_prog *p
        const tx_red *red
        int32_t value, vsize, out_size
        int64_t outer, rcount, inner
        char *out
    int tx_reduce(tx_reduce_job *)
