/* The little of Python's C API that kernels.c uses, for a program without Python:
 * tools/arm64/driver.c fills the kernel table through the module's own code. */
#ifndef TX_ARM64_PYTHON_H
#define TX_ARM64_PYTHON_H

#include <stddef.h>

#define PY_VERSION_HEX 0x030A0000
#define Py_mod_exec 1
#define PyModuleDef_HEAD_INIT 0
#define PyMODINIT_FUNC PyObject *
#define PyExc_ImportError NULL
#define Py_DECREF(object) ((void)(object))

typedef struct PyObject { void *pointer; } PyObject;
typedef struct PyModuleDef_Slot { int slot; void *value; } PyModuleDef_Slot;
struct PyModuleDef { int m_base; const char *m_name, *m_doc; PyModuleDef_Slot *m_slots; };

static PyObject the_capsule;

static inline PyObject *PyCapsule_New(void *pointer, const char *name, void *destructor)
{
    (void)name;
    (void)destructor;
    the_capsule.pointer = pointer;
    return &the_capsule;
}

static inline int PyModule_AddObject(PyObject *module, const char *name, PyObject *object)
{
    (void)module;
    (void)name;
    (void)object;
    return 0;
}

static inline int PyModule_AddStringConstant(PyObject *module, const char *name, const char *value)
{
    (void)module;
    (void)name;
    (void)value;
    return 0;
}

static inline void PyErr_SetString(PyObject *type, const char *text)
{
    (void)type;
    (void)text;
}

static inline PyObject *PyModuleDef_Init(struct PyModuleDef *definition)
{
    (void)definition;
    return &the_capsule;
}

#endif
