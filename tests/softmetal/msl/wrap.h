// What the front end's wrappers around kernels are made of: one function that
// runs a single thread and one that runs all threads of a group, plus a table
// that describes the arguments.  The structures mirror those in program.h.

struct __sm_group {
    ulong buffer[31];          // GPU addresses of the buffers, by index
    ulong threadgroup_arg[31]; // addresses of threadgroup arguments, by index
    uint group[3];             // position of the group in the grid of groups
    uint groups[3];
    uint nominal[3];           // threads per group as dispatched
    uint size[3];              // threads in this group (smaller at the edge)
    uint threads[3];           // threads in the grid
    uint simd_width;
};

extern "C" __local void *__sm_threadgroup_address(uint site);

// Records the size of a threadgroup variable beside the code that uses it
// (section .sm_tg: code address, size, number), so that a pipeline knows its
// static threadgroup memory without running.
template <int size, int site>
SM_INLINE __local void *__sm_threadgroup_variable()
{
    __asm__ volatile("1:\n\t.pushsection sm_tg,\"aw\"\n\t.long 1b - ., %c0, %c1\n\t.popsection"
                     : : "i"(size), "i"(site));
    return __sm_threadgroup_address(site);
}

namespace __sm {

template <int I, typename F> struct arg;
template <typename R, typename H, typename... A> struct arg<0, R(H, A...)> { typedef H type; };
template <int I, typename R, typename H, typename... A> struct arg<I, R(H, A...)> {
    typedef typename arg<I - 1, R(A...)>::type type;
};

// kind 1 device, 2 constant, 3 threadgroup; bytes: what must be bound at least
// (all of it for a reference, nothing is known for a pointer).
template <typename T> struct is_const { enum { value = 0 }; };
template <typename T> struct is_const<const T> { enum { value = 1 }; };
template <typename T> struct memory;
#define SM_MEMORY(AS, KIND)                                                        \
    template <typename T> struct memory<AS T *> {                                  \
        enum { kind = KIND, bytes = 0, align = sizeof(T), readonly = is_const<T>::value }; \
        static SM_INLINE AS T *make(ulong a) { return (AS T *)a; }                 \
    };                                                                             \
    template <typename T> struct memory<AS T &> {                                  \
        enum { kind = KIND, bytes = sizeof(T), align = sizeof(T), readonly = is_const<T>::value }; \
        static SM_INLINE AS T &make(ulong a) { return *(AS T *)a; }                \
    };
SM_MEMORY(__global, 1)
SM_MEMORY(__constant, 2)
SM_MEMORY(__local, 3)
template <typename T> struct memory<T *const> : memory<T *> {};

// Positions and sizes, in the type that the parameter asks for.
template <typename T> struct place {
    static_assert(metal::is_same<T, uint>::value || metal::is_same<T, ushort>::value,
                  "a position or size of a kernel must be of type uint or ushort (or a vector)");
    static SM_INLINE T make(uint x, uint, uint) { return (T)x; }
};
template <typename T> struct place<metal::vec<T, 2>> {
    static SM_INLINE metal::vec<T, 2> make(uint x, uint y, uint)
    {
        metal::vec<T, 2> v = {place<T>::make(x, 0, 0), (T)y};
        return v;
    }
};
template <typename T> struct place<metal::vec<T, 3>> {
    static SM_INLINE metal::vec<T, 3> make(uint x, uint y, uint z)
    {
        metal::vec<T, 3> v = {place<T>::make(x, 0, 0), (T)y, (T)z};
        return v;
    }
};
template <typename T> struct plain { typedef T type; };
template <typename T> struct plain<const T> { typedef T type; };

struct argument {
    uint kind, index, bytes, align, readonly;
};

} // namespace __sm
