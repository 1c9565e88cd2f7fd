/* Matrix-product kernels of one instruction set.  Compiled once per instruction set, all
 * static; the engine gets txg_table through tx_kernels.gemm. */
#ifndef TX_GEMM_KERNELS_H
#define TX_GEMM_KERNELS_H

#include "kernel_abi.h"
#include "gemm_abi.h"
#include "gemm_simd.h"
#include "gemm_convert.h"
#include "gemm_transpose.h"

#define TXG_P txg_pack2
#define TXG_E txg_b2
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define TXG_PAIR 1
#endif
#include "gemm_pack.h"

#define TXG_P txg_pack4
#define TXG_E txg_b4
#define TXG_V vtxg_u32
#define TXG_M mtxg_u32
#define TXG_TR txg_square_u32
#include "gemm_pack.h"

#define TXG_P txg_pack8
#define TXG_E txg_b8
#define TXG_V vtxg_u64
#define TXG_M mtxg_u64
#define TXG_TR txg_square_u64
#include "gemm_pack.h"

#define TXG_P txg_pack16
#define TXG_E txg_b16
#include "gemm_pack.h"

/* (re, im) -> (im, re) in every pair */
#if TXG_VB == 64
#define TXG_SWAP_f32(x) TXG_SHUFFLE(vtxg_f32, vtxg_u32, x, x, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14)
#define TXG_SWAP_f64(x) TXG_SHUFFLE(vtxg_f64, vtxg_u64, x, x, 1, 0, 3, 2, 5, 4, 7, 6)
#elif TXG_VB == 32
#define TXG_SWAP_f32(x) TXG_SHUFFLE(vtxg_f32, vtxg_u32, x, x, 1, 0, 3, 2, 5, 4, 7, 6)
#define TXG_SWAP_f64(x) TXG_SHUFFLE(vtxg_f64, vtxg_u64, x, x, 1, 0, 3, 2)
#else
#define TXG_SWAP_f32(x) TXG_SHUFFLE(vtxg_f32, vtxg_u32, x, x, 1, 0, 3, 2)
#define TXG_SWAP_f64(x) TXG_SHUFFLE(vtxg_f64, vtxg_u64, x, x, 1, 0)
#endif
TXG_INLINE vtxg_f32 txg_swap_c64(vtxg_f32 x) { return TXG_SWAP_f32(x); }
TXG_INLINE vtxg_f64 txg_swap_c128(vtxg_f64 x) { return TXG_SWAP_f64(x); }

/* ---- computed types ---- */

#define TXG_N f32
#define TXG_T float
#define TXG_TN f32
#define TXG_CPLX 0
#define TXG_SUM_T double
#include "gemm_tile.h"

#define TXG_N f64
#define TXG_T double
#define TXG_TN f64
#define TXG_CPLX 0
#define TXG_SUM_T double
#include "gemm_tile.h"

#define TXG_N c64
#define TXG_T float
#define TXG_TN f32
#define TXG_CPLX 1
#define TXG_SUM_T double
#include "gemm_tile.h"

#define TXG_N c128
#define TXG_T double
#define TXG_TN f64
#define TXG_CPLX 1
#define TXG_SUM_T double
#include "gemm_tile.h"

#define TXG_N u16
#define TXG_T uint16_t
#define TXG_TN u16
#define TXG_CPLX 0
#define TXG_SUM_T uint16_t
#include "gemm_tile.h"

#define TXG_N u32
#define TXG_T uint32_t
#define TXG_TN u32
#define TXG_CPLX 0
#define TXG_SUM_T uint32_t
#include "gemm_tile.h"

#define TXG_N u64
#define TXG_T uint64_t
#define TXG_TN u64
#define TXG_CPLX 0
#define TXG_SUM_T uint64_t
#include "gemm_tile.h"

#define TXG_T float
#define TXG_TN f32
#define TXG_UV vtxg_u32
#define TXG_TR txg_square_u32
#include "gemm_thin.h"

#define TXG_T double
#define TXG_TN f64
#define TXG_UV vtxg_u64
#define TXG_TR txg_square_u64
#include "gemm_thin.h"

/* ---- stored types ---- */

#define TXG_N bool
#define TXG_S uint8_t
#define TXG_T float
#define TXG_PER 1
#define TXG_WIDEN 1
#define TXG_PACK txg_pack4
#define TXG_TILE_N f32
#include "gemm_store.h"

#define TXG_N f16
#define TXG_S uint16_t
#define TXG_THIN_OF txg_thin_f32
#define TXG_T float
#define TXG_PER 1
#define TXG_WIDEN 1
#define TXG_PACK txg_pack4
#define TXG_TILE_N f32
#include "gemm_store.h"

#define TXG_N bf16
#define TXG_S uint16_t
#define TXG_THIN_OF txg_thin_f32
#define TXG_T float
#define TXG_PER 1
#define TXG_WIDEN 1
#define TXG_PACK txg_pack4
#define TXG_TILE_N f32
#include "gemm_store.h"

#define TXG_N f32
#define TXG_S float
#define TXG_T float
#define TXG_PER 1
#define TXG_WIDEN 0
#define TXG_PACK txg_pack4
#define TXG_TILE_N f32
#include "gemm_store.h"

#define TXG_N f64
#define TXG_S double
#define TXG_T double
#define TXG_PER 1
#define TXG_WIDEN 0
#define TXG_PACK txg_pack8
#define TXG_TILE_N f64
#include "gemm_store.h"

#define TXG_N c64
#define TXG_S float
#define TXG_T float
#define TXG_PER 2
#define TXG_WIDEN 0
#define TXG_PACK txg_pack8
#define TXG_TILE_N c64
#include "gemm_store.h"

#define TXG_N c128
#define TXG_S double
#define TXG_T double
#define TXG_PER 2
#define TXG_WIDEN 0
#define TXG_PACK txg_pack16
#define TXG_TILE_N c128
#include "gemm_store.h"

#define TXG_N u8
#define TXG_S uint8_t
#define TXG_T uint16_t
#define TXG_PER 1
#define TXG_WIDEN 1
#define TXG_PACK txg_pack2
#define TXG_TILE_N u16
#include "gemm_store.h"

#define TXG_N u16
#define TXG_S uint16_t
#define TXG_T uint16_t
#define TXG_PER 1
#define TXG_WIDEN 0
#define TXG_PACK txg_pack2
#define TXG_TILE_N u16
#include "gemm_store.h"

#define TXG_N u32
#define TXG_S uint32_t
#define TXG_T uint32_t
#define TXG_PER 1
#define TXG_WIDEN 0
#define TXG_PACK txg_pack4
#define TXG_TILE_N u32
#include "gemm_store.h"

#define TXG_N u64
#define TXG_S uint64_t
#define TXG_T uint64_t
#define TXG_PER 1
#define TXG_WIDEN 0
#define TXG_PACK txg_pack8
#define TXG_TILE_N u64
#include "gemm_store.h"

/* ---- the table ---- */

#define TXG_ENTRY(name, tile, cbytes, tbytes, sbytes, wide, per, dotfn, thinfn, ns)                                 \
    {TXG_MR / (per), TXG_NV * TXG_VB / (cbytes), TXG_VB / (cbytes), sbytes, cbytes, wide, ns, TXG_MASKED,               \
     txg_pack_b_##name, txg_pack_a_##name, txg_block_##tile, thinfn, txg_fold_##tile, txg_finish_##name, dotfn, txg_dot_sum_##tile}

/* Bytes of products per ns of one core: fixes how work is cut and when it is worth sharing, nothing else. */
#if TXG_VB == 64
#define TXG_RATE 200.0f
#elif TXG_VB == 32
#define TXG_RATE 180.0f
#elif defined(__aarch64__)
#define TXG_RATE 100.0f
#else
#define TXG_RATE 45.0f
#endif

#define TXG_REAL(name, bytes, slow, thinfn) \
    TXG_ENTRY(name, name, bytes, bytes, bytes, 0, 1, txg_dot_##name, thinfn, (slow) * (bytes) / TXG_RATE)
#define TXG_WIDE(name, tile, sbytes, cbytes, thinfn) \
    TXG_ENTRY(name, tile, cbytes, cbytes, sbytes, 1, 1, txg_dot_of_##name, thinfn, (cbytes) / TXG_RATE)
#define TXG_COMPLEX(name, bytes) \
    TXG_ENTRY(name, name, bytes, bytes, bytes, 0, 2, txg_dot_##name, NULL, 2 * (bytes) / TXG_RATE)

static const txg_table txg_the_table = {
    TX_GEMM_ABI, TX_NDT,
    {
        [TX_BOOL] = TXG_WIDE(bool, f32, 1, 4, NULL),
        [TX_I8] = TXG_WIDE(u8, u16, 1, 2, NULL),
        [TX_I16] = TXG_REAL(u16, 2, 2, NULL),
        [TX_I32] = TXG_REAL(u32, 4, 2, NULL),
        [TX_I64] = TXG_REAL(u64, 8, 4, NULL),
        [TX_U8] = TXG_WIDE(u8, u16, 1, 2, NULL),
        [TX_U16] = TXG_REAL(u16, 2, 2, NULL),
        [TX_U32] = TXG_REAL(u32, 4, 2, NULL),
        [TX_U64] = TXG_REAL(u64, 8, 4, NULL),
        [TX_F16] = TXG_WIDE(f16, f32, 2, 4, txg_thin_f16),
        [TX_BF16] = TXG_WIDE(bf16, f32, 2, 4, txg_thin_bf16),
        [TX_F32] = TXG_REAL(f32, 4, 1, txg_thin_f32),
        [TX_F64] = TXG_REAL(f64, 8, 1, txg_thin_f64),
        [TX_C64] = TXG_COMPLEX(c64, 8),
        [TX_C128] = TXG_COMPLEX(c128, 16),
    },
};

static const void *tx_gemm_table(void) { return &txg_the_table; }

#endif
