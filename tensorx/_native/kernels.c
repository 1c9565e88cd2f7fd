/* A kernel module: the kernels of one instruction set, as the capsule "tensorx.kernels".
 *
 * Compiled once per instruction set with -DTX_MODULE_NAME=_kernels_<isa> and -DTX_ISA="<isa>",
 * together with the generated units (ops/codegen.py), which fill the elementwise table.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "kernel_abi.h"
#include "tx_units.h"

#define TX_STRING2(x) #x
#define TX_STRING(x) TX_STRING2(x)

/* On macOS every module is compiled for every slice; a slice without the instructions of its
 * module has no table, and importing it says so. */
#define TX_IS__kernels_avx2 2
#define TX_IS__kernels_avx512 3
#define TX_LEVEL TX_JOIN(TX_IS_, TX_MODULE_NAME)
#if (TX_LEVEL == 2 && !defined(__AVX2__)) || (TX_LEVEL == 3 && !defined(__AVX512F__))
#define TX_ABSENT 1
#else
#define TX_ABSENT 0
#endif

#if !TX_ABSENT

#if __has_include("cast_kernels.h")
#include "cast_kernels.h"
#define TX_HAVE_CASTS 1
#endif
#if __has_include("move_kernels.h")
#include "move_kernels.h"
#define TX_HAVE_MOVES 1
#endif
#if __has_include("reduce_kernels.h")
#include "reduce_kernels.h"
#define TX_HAVE_REDUCTIONS 1
#endif
#if __has_include("rows_kernels.h")
#include "rows_kernels.h"
#define TX_HAVE_ROWS 1
#endif
#if __has_include("gemm_kernels.h")
#include "gemm_kernels.h"
#define TX_HAVE_GEMM 1
#endif

static tx_ew_fn elementwise[TX_NOPS * TX_NDT];
static tx_kernels kernels;

static void fill(void)
{
    TX_FILL_UNITS(elementwise);
    kernels.abi = TX_KERNEL_ABI;
    kernels.nops = TX_NOPS;
    kernels.table_hash = TX_TABLE_HASH;
    kernels.isa = TX_ISA;
    kernels.ew = elementwise;
#ifdef TX_HAVE_CASTS
    tx_fill_casts(&kernels);
#endif
#ifdef TX_HAVE_MOVES
    tx_fill_moves(&kernels);
#endif
#ifdef TX_HAVE_REDUCTIONS
    tx_fill_reductions(&kernels);
#endif
#ifdef TX_HAVE_ROWS
    tx_fill_rows(&kernels);
#endif
#ifdef TX_HAVE_GEMM
    kernels.gemm = tx_gemm_table();
#endif
}

#endif

static int exec_module(PyObject *module)
{
#if TX_ABSENT
    (void)module;
    PyErr_SetString(PyExc_ImportError, TX_STRING(TX_MODULE_NAME) " was built for another machine than this one");
    return -1;
#else
    fill(); /* the same values every time, so a second interpreter may do it again */
    PyObject *capsule = PyCapsule_New(&kernels, "tensorx.kernels", NULL);
    if (capsule == NULL) return -1;
    if (PyModule_AddObject(module, "kernels", capsule) < 0) {
        Py_DECREF(capsule);
        return -1;
    }
    return PyModule_AddStringConstant(module, "isa", TX_ISA);
#endif
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, exec_module},
#if PY_VERSION_HEX >= 0x030C0000
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
#if PY_VERSION_HEX >= 0x030D0000
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = TX_STRING(TX_MODULE_NAME),
    .m_doc = "Kernels for the instruction set named by isa; kernels is a capsule for the runtime.",
    .m_slots = slots,
};

PyMODINIT_FUNC TX_JOIN(PyInit_, TX_MODULE_NAME)(void)
{
    return PyModuleDef_Init(&definition);
}
