// Atomics and barriers.  memory_order_relaxed is the only order of Metal before
// 3.2.  32-bit integers live in device and threadgroup memory; atomic_float
// (MSL 3.0) in device memory only; 64-bit atomics are not provided.
//
// Every operation is a call into the runtime when accesses are traced, so that
// the race detector does not take it for a plain access.

extern "C" {
uint __sm_atomic_load(ulong p);
void __sm_atomic_store(ulong p, uint v);
void __sm_barrier(uint flags);
void __sm_simd_barrier(uint flags);
}

namespace metal {

enum memory_order { memory_order_relaxed = 0 };
enum class mem_flags : uint {
    mem_none = 0,
    mem_device = 1,
    mem_threadgroup = 2,
    mem_texture = 4,
    mem_threadgroup_imageblock = 8,
};
SM_INLINE constexpr mem_flags operator|(mem_flags a, mem_flags b)
{
    return (mem_flags)((uint)a | (uint)b);
}

SM_INLINE void threadgroup_barrier(mem_flags flags) { __sm_barrier((uint)flags); }
SM_INLINE void simdgroup_barrier(mem_flags flags) { __sm_simd_barrier((uint)flags); }

template <typename T> struct _atomic {
    static_assert(sizeof(T) == 4, "only 32-bit atomics are available");
    T __s;
};
template <typename T> using atomic = _atomic<T>;
typedef _atomic<int> __sm_atomic_int;
typedef _atomic<uint> __sm_atomic_uint;
typedef _atomic<float> __sm_atomic_float;

template <typename T> struct __sm_same { typedef T type; };

SM_INLINE uint __sm_at_load(ulong p)
{
#ifdef SM_TRACE
    return __sm_atomic_load(p);
#else
    return __atomic_load_n((volatile __global uint *)p, __ATOMIC_RELAXED);
#endif
}
SM_INLINE void __sm_at_store(ulong p, uint v)
{
#ifdef SM_TRACE
    __sm_atomic_store(p, v);
#else
    __atomic_store_n((volatile __global uint *)p, v, __ATOMIC_RELAXED);
#endif
}

#define SM_ATOMIC_BASE(AS, T)                                                     \
    SM_INLINE T atomic_load_explicit(const volatile AS _atomic<T> *p, memory_order) \
    {                                                                             \
        return __builtin_astype(__sm_at_load((ulong)p), T);                       \
    }                                                                             \
    SM_INLINE void atomic_store_explicit(volatile AS _atomic<T> *p, T v, memory_order) \
    {                                                                             \
        __sm_at_store((ulong)p, __builtin_astype(v, uint));                       \
    }                                                                             \
    SM_INLINE T atomic_exchange_explicit(volatile AS _atomic<T> *p, T v, memory_order) \
    {                                                                             \
        return __builtin_astype(__atomic_exchange_n((volatile __global uint *)(ulong)p, \
            __builtin_astype(v, uint), __ATOMIC_RELAXED), T);                     \
    }                                                                             \
    SM_INLINE bool atomic_compare_exchange_weak_explicit(volatile AS _atomic<T> *p, \
        __private T *expected, T desired, memory_order, memory_order)             \
    {                                                                             \
        uint want = __builtin_astype(*expected, uint), seen = want;               \
        bool ok = __atomic_compare_exchange_n((volatile __global uint *)(ulong)p, &seen, \
            __builtin_astype(desired, uint), false, __ATOMIC_RELAXED, __ATOMIC_RELAXED); \
        *expected = __builtin_astype(seen, T);                                    \
        return ok;                                                                \
    }
#define SM_ATOMIC_FETCH(AS, T, op)                                                \
    SM_INLINE T atomic_fetch_##op##_explicit(volatile AS _atomic<T> *p, T v, memory_order) \
    {                                                                             \
        return __atomic_fetch_##op((volatile __global T *)(ulong)p, v, __ATOMIC_RELAXED); \
    }
#define SM_ATOMIC_LOOP(AS, T, op, expr)                                           \
    SM_INLINE T atomic_fetch_##op##_explicit(volatile AS _atomic<T> *p, T v, memory_order o) \
    {                                                                             \
        T old = atomic_load_explicit(p, o);                                       \
        while (!atomic_compare_exchange_weak_explicit(p, &old, (T)(expr), o, o))  \
            ;                                                                     \
        return old;                                                               \
    }
#define SM_ATOMIC_INT(AS, T)                                                      \
    SM_ATOMIC_BASE(AS, T)                                                         \
    SM_ATOMIC_FETCH(AS, T, add)                                                   \
    SM_ATOMIC_FETCH(AS, T, sub)                                                   \
    SM_ATOMIC_FETCH(AS, T, and)                                                   \
    SM_ATOMIC_FETCH(AS, T, or)                                                    \
    SM_ATOMIC_FETCH(AS, T, xor)                                                   \
    SM_ATOMIC_LOOP(AS, T, min, v < old ? v : old)                                 \
    SM_ATOMIC_LOOP(AS, T, max, v > old ? v : old)
SM_ATOMIC_INT(__global, int)
SM_ATOMIC_INT(__global, uint)
SM_ATOMIC_INT(__local, int)
SM_ATOMIC_INT(__local, uint)
SM_ATOMIC_BASE(__global, float)
SM_ATOMIC_LOOP(__global, float, add, old + v)
SM_ATOMIC_LOOP(__global, float, sub, old - v)

} // namespace metal

// OpenCL declares these names itself.
#define atomic_int metal::__sm_atomic_int
#define atomic_uint metal::__sm_atomic_uint
#define atomic_float metal::__sm_atomic_float
