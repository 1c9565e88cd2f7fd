// Functions over the lanes of a SIMD-group.  Lanes are fibers that meet in the
// runtime: nothing runs in lockstep, and lanes that are in different functions
// are an error.  64-bit types are not supported, as in Metal.

extern "C" {
// kind: see sm_simd_kind in simd.cpp.  The value travels as bits.
uint __sm_simd(uint op, uint type, uint value, uint arg, uint fill);
ulong __sm_simd_mask(bool vote);
uint __sm_simd_lane(void);
uint __sm_simd_width(void);
}

namespace metal {

enum __sm_simd_op : uint {
    __sm_op_sum, __sm_op_product, __sm_op_min, __sm_op_max, __sm_op_and, __sm_op_or, __sm_op_xor,
    __sm_op_prefix_inclusive_sum, __sm_op_prefix_exclusive_sum,
    __sm_op_prefix_inclusive_product, __sm_op_prefix_exclusive_product,
    __sm_op_broadcast, __sm_op_broadcast_first, __sm_op_shuffle, __sm_op_shuffle_up,
    __sm_op_shuffle_down, __sm_op_shuffle_xor, __sm_op_rotate_up, __sm_op_rotate_down,
    __sm_op_fill_up, __sm_op_fill_down,
    __sm_op_quad_sum, __sm_op_quad_min, __sm_op_quad_max, __sm_op_quad_broadcast,
    __sm_op_quad_shuffle_xor,
};
enum __sm_simd_type : uint { __sm_t_i32, __sm_t_u32, __sm_t_f32, __sm_t_f16 };

#define SM_BITS_INT(T, ID)                                                    \
    SM_INLINE uint __sm_to_bits(T v) { return (uint)v; }                      \
    SM_INLINE void __sm_from_bits(__private T &v, uint b) { v = (T)b; }       \
    SM_INLINE __sm_simd_type __sm_type_of(T) { return ID; }
SM_BITS_INT(bool, __sm_t_u32)
SM_BITS_INT(char, __sm_t_i32)
SM_BITS_INT(uchar, __sm_t_u32)
SM_BITS_INT(short, __sm_t_i32)
SM_BITS_INT(ushort, __sm_t_u32)
SM_BITS_INT(int, __sm_t_i32)
SM_BITS_INT(uint, __sm_t_u32)
SM_INLINE uint __sm_to_bits(float v) { return __builtin_astype(v, uint); }
SM_INLINE void __sm_from_bits(__private float &v, uint b) { v = __builtin_astype(b, float); }
SM_INLINE __sm_simd_type __sm_type_of(float) { return __sm_t_f32; }
SM_INLINE uint __sm_to_bits(half v) { return __builtin_astype(v, ushort); }
SM_INLINE void __sm_from_bits(__private half &v, uint b)
{
    v = __builtin_astype((ushort)b, half);
}
SM_INLINE __sm_simd_type __sm_type_of(half) { return __sm_t_f16; }

template <typename T>
SM_INLINE T __sm_simd_call(__sm_simd_op op, T v, uint arg = 0, T fill = (T)0)
{
    T r;
    __sm_from_bits(r, __sm_simd(op, __sm_type_of(v), __sm_to_bits(v), arg, __sm_to_bits(fill)));
    return r;
}

#define SM_LANE_VN(T, N, name)                                                \
    SM_INLINE T##N name(T##N v, ushort lane)                                  \
    {                                                                         \
        T##N r;                                                               \
        for (int i = 0; i < N; ++i)                                           \
            r[i] = name((T)v[i], lane);                                       \
        return r;                                                             \
    }
#define SM_SIMD_0(T, name, op)                                                \
    SM_INLINE T name(T v) { return __sm_simd_call(op, v); }                   \
    SM_V1(T, name)
#define SM_SIMD_1(T, name, op)                                                \
    SM_INLINE T name(T v, ushort lane) { return __sm_simd_call(op, v, lane); } \
    SM_LANE_VN(T, 2, name) SM_LANE_VN(T, 3, name) SM_LANE_VN(T, 4, name)
#define SM_SIMD_FILL(T, name, op)                                             \
    SM_INLINE T name(T v, T fill, ushort delta) { return __sm_simd_call(op, v, delta, fill); }

#define SM_SIMD_MATH(T)                                                       \
    SM_SIMD_0(T, simd_sum, __sm_op_sum)                                       \
    SM_SIMD_0(T, simd_product, __sm_op_product)                               \
    SM_SIMD_0(T, simd_min, __sm_op_min)                                       \
    SM_SIMD_0(T, simd_max, __sm_op_max)                                       \
    SM_SIMD_0(T, simd_prefix_inclusive_sum, __sm_op_prefix_inclusive_sum)     \
    SM_SIMD_0(T, simd_prefix_exclusive_sum, __sm_op_prefix_exclusive_sum)     \
    SM_SIMD_0(T, simd_prefix_inclusive_product, __sm_op_prefix_inclusive_product) \
    SM_SIMD_0(T, simd_prefix_exclusive_product, __sm_op_prefix_exclusive_product) \
    SM_SIMD_0(T, quad_sum, __sm_op_quad_sum)                                  \
    SM_SIMD_0(T, quad_min, __sm_op_quad_min)                                  \
    SM_SIMD_0(T, quad_max, __sm_op_quad_max)                                  \
    SM_SIMD_0(T, simd_broadcast_first, __sm_op_broadcast_first)               \
    SM_SIMD_1(T, simd_broadcast, __sm_op_broadcast)                           \
    SM_SIMD_1(T, simd_shuffle, __sm_op_shuffle)                               \
    SM_SIMD_1(T, simd_shuffle_up, __sm_op_shuffle_up)                         \
    SM_SIMD_1(T, simd_shuffle_down, __sm_op_shuffle_down)                     \
    SM_SIMD_1(T, simd_shuffle_xor, __sm_op_shuffle_xor)                       \
    SM_SIMD_1(T, simd_shuffle_rotate_up, __sm_op_rotate_up)                   \
    SM_SIMD_1(T, simd_shuffle_rotate_down, __sm_op_rotate_down)               \
    SM_SIMD_1(T, quad_broadcast, __sm_op_quad_broadcast)                      \
    SM_SIMD_1(T, quad_shuffle_xor, __sm_op_quad_shuffle_xor)                  \
    SM_SIMD_FILL(T, simd_shuffle_and_fill_up, __sm_op_fill_up)                \
    SM_SIMD_FILL(T, simd_shuffle_and_fill_down, __sm_op_fill_down)
#define SM_SIMD_BITWISE(T)                                                    \
    SM_SIMD_0(T, simd_and, __sm_op_and)                                       \
    SM_SIMD_0(T, simd_or, __sm_op_or)                                         \
    SM_SIMD_0(T, simd_xor, __sm_op_xor)
SM_SIMD_MATH(char) SM_SIMD_MATH(uchar) SM_SIMD_MATH(short) SM_SIMD_MATH(ushort)
SM_SIMD_MATH(int) SM_SIMD_MATH(uint) SM_SIMD_MATH(half) SM_SIMD_MATH(float)
SM_SIMD_BITWISE(char) SM_SIMD_BITWISE(uchar) SM_SIMD_BITWISE(short) SM_SIMD_BITWISE(ushort)
SM_SIMD_BITWISE(int) SM_SIMD_BITWISE(uint)
SM_INLINE bool simd_shuffle(bool v, ushort lane) { return __sm_simd_call(__sm_op_shuffle, v, lane); }
SM_INLINE bool simd_broadcast(bool v, ushort lane)
{
    return __sm_simd_call(__sm_op_broadcast, v, lane);
}

class simd_vote {
  public:
    typedef ulong vote_t;
    SM_INLINE explicit simd_vote(vote_t v = 0) : bits(v) {}
    SM_INLINE explicit operator vote_t() const { return bits; }
    SM_INLINE bool all() const
    {
        uint w = __sm_simd_width();
        ulong full = w >= 64 ? ~0UL : (1UL << w) - 1;
        return (bits & full) == full;
    }
    SM_INLINE bool any() const { return bits != 0; }

  private:
    vote_t bits;
};
SM_INLINE simd_vote simd_ballot(bool v) { return simd_vote(__sm_simd_mask(v)); }
SM_INLINE simd_vote simd_active_threads_mask() { return simd_vote(__sm_simd_mask(true)); }
SM_INLINE bool simd_any(bool v) { return __sm_simd_mask(v) != 0; }
SM_INLINE bool simd_all(bool v) { return __sm_simd_mask(!v) == 0; }
SM_INLINE bool simd_is_first()
{
    return (uint)__builtin_ctzl(__sm_simd_mask(true)) == __sm_simd_lane();
}

} // namespace metal
