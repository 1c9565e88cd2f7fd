// simdgroup_matrix<float | half, 8, 8>.  Each of 32 lanes holds two elements,
// laid out as on Apple silicon.  Loads and stores are done by each lane for its
// own elements; a product meets in the runtime.

extern "C" void __sm_simd_mma(__private float *d, const __private float *a,
                              const __private float *b, const __private float *c);
extern "C" void __sm_simd_matrix_check(void);

namespace metal {

template <typename T, int R, int C>
struct simdgroup_matrix {
    static_assert(R == 8 && C == 8, "only 8x8 matrices are available");
    static_assert(is_same<T, float>::value || is_same<T, half>::value,
                  "the elements must be float or half");
    vec<T, 2> __e;
    simdgroup_matrix() = default;
    SM_INLINE explicit simdgroup_matrix(T diagonal)
    {
        int row = __sm_row(), col = __sm_col();
        __e[0] = row == col ? diagonal : (T)0;
        __e[1] = row == col + 1 ? diagonal : (T)0;
    }
    SM_INLINE __private vec<T, 2> &thread_elements() __private { return __e; }
    static SM_INLINE int __sm_row()
    {
        uint lane = __sm_simd_lane();
        return (int)((lane / 4 & 4) + (lane / 2) % 4);
    }
    static SM_INLINE int __sm_col()
    {
        uint lane = __sm_simd_lane();
        return (int)((lane / 4 & 2) * 2 + (lane % 2) * 2);
    }
};
typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;

template <typename T, int R, int C>
SM_INLINE simdgroup_matrix<T, R, C> make_filled_simdgroup_matrix(T v)
{
    simdgroup_matrix<T, R, C> m;
    m.__e[0] = v;
    m.__e[1] = v;
    return m;
}

#define SM_MATRIX_MEMORY(AS)                                                        \
    template <typename T, int R, int C>                                             \
    SM_INLINE void simdgroup_load(__private simdgroup_matrix<T, R, C> &m,           \
                                  const AS T *p, ulong stride = C,                  \
                                  ulong2 origin = (ulong2)0, bool transpose = false) \
    {                                                                               \
        __sm_simd_matrix_check();                                                   \
        for (int k = 0; k < 2; ++k) {                                               \
            ulong r = (ulong)m.__sm_row(), c = (ulong)(m.__sm_col() + k);           \
            m.__e[k] = transpose ? p[(origin[1] + c) * stride + origin[0] + r]      \
                                 : p[(origin[1] + r) * stride + origin[0] + c];     \
        }                                                                           \
    }                                                                               \
    template <typename T, int R, int C>                                             \
    SM_INLINE void simdgroup_store(simdgroup_matrix<T, R, C> m, AS T *p,            \
                                   ulong stride = C, ulong2 origin = (ulong2)0,     \
                                   bool transpose = false)                          \
    {                                                                               \
        __sm_simd_matrix_check();                                                   \
        for (int k = 0; k < 2; ++k) {                                               \
            ulong r = (ulong)m.__sm_row(), c = (ulong)(m.__sm_col() + k);           \
            if (transpose)                                                          \
                p[(origin[1] + c) * stride + origin[0] + r] = m.__e[k];             \
            else                                                                    \
                p[(origin[1] + r) * stride + origin[0] + c] = m.__e[k];             \
        }                                                                           \
    }
SM_MATRIX_MEMORY(__global)
SM_MATRIX_MEMORY(__local)

template <typename D, typename A, typename B, typename S>
SM_INLINE void simdgroup_multiply_accumulate(__private simdgroup_matrix<D, 8, 8> &d,
                                             simdgroup_matrix<A, 8, 8> a,
                                             simdgroup_matrix<B, 8, 8> b,
                                             simdgroup_matrix<S, 8, 8> c)
{
    float fa[2] = {(float)a.__e[0], (float)a.__e[1]};
    float fb[2] = {(float)b.__e[0], (float)b.__e[1]};
    float fc[2] = {(float)c.__e[0], (float)c.__e[1]};
    float fd[2];
    __sm_simd_mma(fd, fa, fb, fc);
    d.__e[0] = (D)fd[0];
    d.__e[1] = (D)fd[1];
}
template <typename D, typename A, typename B>
SM_INLINE void simdgroup_multiply(__private simdgroup_matrix<D, 8, 8> &d,
                                  simdgroup_matrix<A, 8, 8> a, simdgroup_matrix<B, 8, 8> b)
{
    simdgroup_multiply_accumulate(d, a, b, make_filled_simdgroup_matrix<D, 8, 8>((D)0));
}
template <typename T>
SM_INLINE simdgroup_matrix<T, 8, 8> operator*(simdgroup_matrix<T, 8, 8> a,
                                              simdgroup_matrix<T, 8, 8> b)
{
    simdgroup_matrix<T, 8, 8> d;
    simdgroup_multiply(d, a, b);
    return d;
}

} // namespace metal
