# The kernel table: the best instruction set that the processor and the system support.

cdef extern from *:
    """
    #if defined(__x86_64__) || defined(__i386__)
    static int tx_cpu_has(const char *isa) {
        __builtin_cpu_init();
        if (!strcmp(isa, "avx512"))
            return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                   __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                   __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2");
        if (!strcmp(isa, "avx2"))
            return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
        return !strcmp(isa, "base");
    }
    #else
    static int tx_cpu_has(const char *isa) { return !strcmp(isa, "base"); }
    #endif
    """
    int tx_cpu_has(const char *isa)


def supported_isas():
    """Instruction sets that this processor and system support, best first."""
    return [i for i in ("avx512", "avx2", "base") if tx_cpu_has(i.encode())]


def isa():
    """Instruction set of the kernels in use."""
    return K.isa.decode()


cdef object load_kernels():
    global K
    import importlib
    import os
    wanted = os.environ.get("TENSORX_ISA", "")
    names = supported_isas()
    if wanted:
        if wanted not in ("avx512", "avx2", "base"):
            raise ImportError(f"TENSORX_ISA={wanted!r}: there are base, avx2 and avx512")
        if wanted not in names:
            raise ImportError(f"TENSORX_ISA={wanted!r}: this processor or system does not support it (it has {', '.join(names)})")
        names = [wanted]
    problems = []
    for name in names:
        try:
            module = importlib.import_module("tensorx._kernels_" + name)
        except ImportError as e:
            problems.append(f"{name}: {e}")
            continue
        capsule = getattr(module, "kernels", None)
        if capsule is None:
            problems.append(f"{name}: built empty for this machine")
            continue
        K = <const tx_kernels *>PyCapsule_GetPointer(capsule, b"tensorx.kernels")
        if K.abi != TX_KERNEL_ABI or K.nops != NOPS or K.table_hash != <uint64_t>_table.HASH:
            raise ImportError(f"the kernels of {name} were built from another op table or version: rebuild tensorx (pip install .)")
        return
    raise ImportError("no kernel module could be loaded: " + "; ".join(problems))

load_kernels()


# ---- methods written in Python -----------------------------------------------------------------

cdef extern from "Python.h":
    void PyType_Modified(PyTypeObject *)
    ctypedef struct _TypeWithDict "PyTypeObject":
        PyObject *tp_dict


def add_method(str name, function):
    """Makes a Python function, property or other descriptor an attribute of Tensor.

    Only names without a slot: the special methods are compiled. (An extension type refuses
    setattr; its dictionary and PyType_Modified are what Cython itself uses for this.)
    """
    if name.startswith("__") and name in ("__add__", "__getitem__", "__len__", "__iter__", "__eq__", "__hash__", "__repr__"):
        raise ValueError(f"{name} is compiled")
    cdef _TypeWithDict *t = <_TypeWithDict *><PyTypeObject *>Tensor
    (<object>t.tp_dict)[name] = function
    PyType_Modified(<PyTypeObject *>Tensor)
