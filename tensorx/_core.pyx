# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, embedsignature=False, binding=True
"""The compiled core of tensorx: storages, allocator counters, handles, deferred evaluation.

Everything public is re-exported by the package; import :mod:`tensorx`. The pieces lie in
``_native/`` and are included below in the order in which they build on one another.
"""

cimport cython
from cpython.object cimport PyObject, PyTypeObject, Py_TYPE
from cpython.ref cimport Py_INCREF, Py_DECREF, Py_XDECREF
from cpython.buffer cimport (PyBuffer_Release, PyObject_GetBuffer, PyBUF_C_CONTIGUOUS, PyBUF_FORMAT, PyBUF_ND,
                             PyBUF_STRIDED, PyBUF_SIMPLE, PyBUF_STRIDED_RO, PyBUF_STRIDES, PyBUF_WRITABLE)
from cpython.exc cimport PyErr_CheckSignals, PyErr_Occurred
from cpython.pycapsule cimport PyCapsule_GetPointer

import contextvars
import sys
from sys import modules as sys_modules

cdef extern from "Python.h":
    PyObject *Py_True
    bint PyFloat_CheckExact(object)
    bint PyFloat_Check(object)
    bint PyLong_CheckExact(object)
    bint PyLong_Check(object)
    bint PyIndex_Check(object)
    PyObject *PyTuple_GET_ITEM(object, Py_ssize_t)
    int PyContextVar_Get(object, PyObject *, PyObject **) except -1
    int PySlice_Unpack(object, Py_ssize_t *, Py_ssize_t *, Py_ssize_t *) except -1
    Py_ssize_t PySlice_AdjustIndices(Py_ssize_t, Py_ssize_t *, Py_ssize_t *, Py_ssize_t)
    Py_ssize_t PyNumber_AsSsize_t(object, object) except? -1
    object PyWeakref_NewRef(object, object)

include "_native/decl.pxi"
include "_native/dtypes.pxi"
include "_native/memory.pxi"
include "_native/storage.pxi"
include "_native/threads.pxi"
include "_native/graph.pxi"
include "_native/plan.pxi"
include "_native/emit.pxi"
include "_native/evaluate.pxi"
include "_native/device.pxi"
include "_native/write.pxi"
include "_native/ops.pxi"
include "_native/tape.pxi"
include "_native/tensor.pxi"
include "_native/inplace.pxi"
include "_native/record.pxi"
include "_native/views.pxi"
include "_native/lazy.pxi"
include "_native/reduce.pxi"
include "_native/rows.pxi"
include "_native/rows_backward.pxi"
include "_native/matmul.pxi"
include "_native/conv.pxi"
include "_native/again.pxi"
include "_native/pooling.pxi"
include "_native/convert.pxi"
include "_native/joining.pxi"
include "_native/backward.pxi"
include "_native/index_access.pxi"
include "_native/index.pxi"
include "_native/index_api.pxi"
include "_native/assign.pxi"
include "_native/random.pxi"
include "_native/lines.pxi"
include "_native/steps.pxi"
include "_native/explain.pxi"
include "_native/custom.pxi"
include "_native/dlpack.pxi"
include "_native/kernels.pxi"
