/* A kernel module: the kernels of one instruction set, as the capsule "tensorx.kernels".
 *
 * Compiled once per instruction set with -DTX_MODULE_NAME=_kernels_<isa> and -DTX_ISA="<isa>",
 * together with the generated units (ops/codegen.py), which fill the elementwise table.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "kernel_abi.h"
#include "step_kernels.h"
#include "tx_units.h"

#define TX_STRING2(x) #x
#define TX_STRING(x) TX_STRING2(x)

#if !TX_ABSENT
static tx_ew_fn elementwise[TX_NOPS * TX_NDT];
static tx_kernels kernels;

static void fill(void)
{
    kernels.abi = TX_KERNEL_ABI;
    kernels.nops = TX_NOPS;
    kernels.table_hash = TX_TABLE_HASH;
    kernels.isa = TX_ISA;
    kernels.ew = elementwise;
    kernels.extra = &tx_step_table;
    TX_FILL_UNITS(&kernels, elementwise);
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
