// Functions over the lanes of a SIMD-group: the last lane to arrive computes
// for all of them.
#include "group.h"

#include <cmath>
#include <cstring>

namespace sm {

void wake_simd(Worker *w, int simd_group, int except);

namespace {

// The order is that of __sm_simd_op in msl/simdgroup.h.
enum Op : uint32_t {
    kSum, kProduct, kMin, kMax, kAnd, kOr, kXor, kInclusiveSum, kExclusiveSum, kInclusiveProduct,
    kExclusiveProduct, kBroadcast, kBroadcastFirst, kShuffle, kShuffleUp, kShuffleDown,
    kShuffleXor, kRotateUp, kRotateDown, kFillUp, kFillDown, kQuadSum, kQuadMin, kQuadMax,
    kQuadBroadcast, kQuadShuffleXor, kOps, kVote = 100, kBarrier, kMatrix,
};
const char *const names[kOps] = {
    "simd_sum", "simd_product", "simd_min", "simd_max", "simd_and", "simd_or", "simd_xor",
    "simd_prefix_inclusive_sum", "simd_prefix_exclusive_sum", "simd_prefix_inclusive_product",
    "simd_prefix_exclusive_product", "simd_broadcast", "simd_broadcast_first", "simd_shuffle",
    "simd_shuffle_up", "simd_shuffle_down", "simd_shuffle_xor", "simd_shuffle_rotate_up",
    "simd_shuffle_rotate_down", "simd_shuffle_and_fill_up", "simd_shuffle_and_fill_down",
    "quad_sum", "quad_min", "quad_max", "quad_broadcast", "quad_shuffle_xor",
};
enum Type : uint32_t { kI32, kU32, kF32, kF16 };

constexpr uint32_t kUndefined = 0xFBFBFBFBu; // read from a lane that does not take part

float as_float(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}
uint32_t as_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

float half_to_float(uint32_t h)
{
    uint32_t sign = (h & 0x8000) << 16, e = h >> 10 & 31, m = h & 1023;
    if (e == 31)
        return as_float(sign | 0x7f800000 | m << 13);
    if (e)
        return as_float(sign | (e + 112) << 23 | m << 13);
    float f = (float)m * 0x1p-24f;
    return sign ? -f : f;
}

uint32_t float_to_half(float f)
{
    uint32_t u = as_bits(f), sign = u >> 16 & 0x8000, a = u & 0x7fffffff;
    if (a > 0x7f800000)
        return sign | 0x7e00;
    if (a >= 0x477ff000)
        return sign | 0x7c00;
    if (a < 0x38800000) { // subnormal: round to a multiple of 2^-24, ties to even
        float scaled = as_float(a) * 0x1p24f;
        return sign | (uint32_t)std::nearbyintf(scaled);
    }
    uint32_t r = a - 0x38000000;
    r += 0xfff + (r >> 13 & 1);
    return sign | r >> 13;
}

uint32_t combine(uint32_t op, uint32_t type, uint32_t a, uint32_t b)
{
    if (type == kF32 || type == kF16) {
        float x = type == kF32 ? as_float(a) : half_to_float(a);
        float y = type == kF32 ? as_float(b) : half_to_float(b);
        float r = op == kSum ? x + y : op == kProduct ? x * y
                  : op == kMin ? std::fmin(x, y) : std::fmax(x, y);
        return type == kF32 ? as_bits(r) : float_to_half(r);
    }
    switch (op) {
    case kSum: return a + b;
    case kProduct: return a * b;
    case kAnd: return a & b;
    case kOr: return a | b;
    case kXor: return a ^ b;
    case kMin: return type == kI32 ? ((int32_t)b < (int32_t)a ? b : a) : b < a ? b : a;
    default: return type == kI32 ? ((int32_t)b > (int32_t)a ? b : a) : b > a ? b : a;
    }
}

uint32_t neutral(uint32_t op, uint32_t type)
{
    if (op == kProduct)
        return type == kF32 ? as_bits(1) : type == kF16 ? float_to_half(1) : 1;
    return 0;
}

// A tree over the lanes, as shuffles would do it; lanes that are absent are skipped.
uint32_t reduce(const SimdGroup &g, uint64_t active, uint32_t op, int first, int count)
{
    uint32_t v[64];
    bool have[64];
    for (int i = 0; i < count; ++i) {
        have[i] = active >> (first + i) & 1;
        v[i] = g.value[first + i];
    }
    for (int step = 1; step < count; step *= 2)
        for (int i = 0; i + step < count; i += 2 * step)
            if (have[i + step]) {
                v[i] = have[i] ? combine(op, g.type, v[i], v[i + step]) : v[i + step];
                have[i] = true;
            }
    return v[0];
}

void matrix_product(SimdGroup &g)
{
    float a[8][8], b[8][8], c[8][8];
    for (uint32_t l = 0; l < 32; ++l) {
        uint32_t row = (l / 4 & 4) + l / 2 % 4, col = (l / 4 & 2) * 2 + l % 2 * 2;
        for (uint32_t k = 0; k < 2; ++k) {
            a[row][col + k] = g.matrix[l][k];
            b[row][col + k] = g.matrix[l][2 + k];
            c[row][col + k] = g.matrix[l][4 + k];
        }
    }
    for (int i = 0; i < 8; ++i)
        for (int k = 0; k < 8; ++k)
            for (int j = 0; j < 8; ++j)
                c[i][j] = __builtin_fmaf(a[i][k], b[k][j], c[i][j]);
    for (uint32_t l = 0; l < 32; ++l) {
        uint32_t row = (l / 4 & 4) + l / 2 % 4, col = (l / 4 & 2) * 2 + l % 2 * 2;
        g.matrix[l][6] = c[row][col];
        g.matrix[l][7] = c[row][col + 1];
    }
}

} // namespace

const char *simd_name(uint32_t op)
{
    return op < kOps ? names[op] : op == kVote ? "simd_ballot, simd_any or simd_all"
           : op == kBarrier ? "simdgroup_barrier" : "simdgroup_multiply_accumulate";
}

void simd_complete(Worker *w, SimdGroup &g, uint64_t active)
{
    int n = w->lanes;
    uint32_t out[64];
    auto read = [&](long lane) {
        return lane >= 0 && lane < n && (active >> lane & 1) ? g.value[lane] : kUndefined;
    };
    uint32_t op = g.op;
    switch (op) {
    case kVote:
        g.mask = 0;
        for (int i = 0; i < n; ++i)
            if ((active >> i & 1) && g.value[i])
                g.mask |= (uint64_t)1 << i;
        break;
    case kBarrier:
        for (int i = 0; i < 2; ++i)
            w->simd_epoch[i][&g - w->simd.data()] += g.arg[__builtin_ctzll(active)] >> i & 1;
        break;
    case kMatrix:
        if (n != 32 || active != 0xffffffffu) {
            w->outcome = kBad;
            snprintf(w->message, sizeof w->message,
                     "%s: simdgroup_multiply_accumulate with %d of 32 lanes",
                     w->kernel->name.c_str(), __builtin_popcountll(active));
            sm_violation("barrier", "%s", w->message);
            break;
        }
        matrix_product(g);
        break;
    case kSum: case kProduct: case kMin: case kMax: case kAnd: case kOr: case kXor: {
        uint32_t r = reduce(g, active, op, 0, n);
        for (int i = 0; i < n; ++i)
            out[i] = r;
        break;
    }
    case kQuadSum: case kQuadMin: case kQuadMax: {
        uint32_t base = op == kQuadSum ? kSum : op == kQuadMin ? kMin : kMax;
        for (int q = 0; q < n; q += 4) {
            uint32_t r = reduce(g, active, base, q, n - q < 4 ? n - q : 4);
            for (int i = q; i < q + 4 && i < n; ++i)
                out[i] = r;
        }
        break;
    }
    case kInclusiveSum: case kExclusiveSum: case kInclusiveProduct: case kExclusiveProduct: {
        uint32_t base = op == kInclusiveSum || op == kExclusiveSum ? kSum : kProduct;
        bool inclusive = op == kInclusiveSum || op == kInclusiveProduct;
        uint32_t sum = neutral(base, g.type);
        for (int i = 0; i < n; ++i) {
            if (!(active >> i & 1))
                continue;
            uint32_t next = combine(base, g.type, sum, g.value[i]);
            out[i] = inclusive ? next : sum;
            sum = next;
        }
        break;
    }
    default:
        for (int i = 0; i < n; ++i) {
            long a = (long)g.arg[i];
            switch (op) {
            case kBroadcast: case kShuffle: out[i] = read(a); break;
            case kBroadcastFirst: out[i] = read(__builtin_ctzll(active)); break;
            case kShuffleUp: out[i] = read(i - a); break;
            case kShuffleDown: out[i] = read(i + a); break;
            case kShuffleXor: out[i] = read(i ^ a); break;
            case kRotateUp: out[i] = read(((i - a) % n + n) % n); break;
            case kRotateDown: out[i] = read((i + a) % n); break;
            case kFillUp: out[i] = i - a < 0 ? g.fill[i] : read(i - a); break;
            case kFillDown: out[i] = i + a >= n ? g.fill[i] : read(i + a); break;
            case kQuadBroadcast: out[i] = read(i / 4 * 4 + (a & 3)); break;
            default: out[i] = read(i / 4 * 4 + (i % 4 ^ (a & 3))); break;
            }
        }
    }
    if (op < kOps)
        for (int i = 0; i < n; ++i)
            if (active >> i & 1)
                g.value[i] = out[i];
    g.arrived = 0;
}

// Arrives at an op with the lane's value; returns when all lanes were there.
static SimdGroup &meet(Worker *w, uint32_t op, uint32_t type, const void *site, uint32_t value,
                       uint32_t arg, uint32_t fill, const float *matrix)
{
    int t = w->current->thread, s = t / w->lanes, lane = t % w->lanes;
    SimdGroup &g = w->simd[(size_t)s];
    if (!g.arrived) {
        g.op = op;
        g.type = type;
        g.site = site;
    } else if (g.op != op || g.site != site) {
        sm_violation("barrier", "%s: lanes of SIMD-group %d are in different calls: %s and %s",
                     w->kernel->name.c_str(), s, simd_name(g.op), simd_name(op));
        w->fail(kBad, "%s: lanes of SIMD-group %d are in different calls: %s and %s",
                w->kernel->name.c_str(), s, simd_name(g.op), simd_name(op));
    }
    g.value[lane] = value;
    g.arg[lane] = arg;
    g.fill[lane] = fill;
    if (matrix)
        memcpy(g.matrix[lane], matrix, 6 * sizeof(float));
    g.arrived |= (uint64_t)1 << lane;
    int count = w->threads - s * w->lanes;
    if (count > w->lanes)
        count = w->lanes;
    uint64_t full = count >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << count) - 1;
    if (g.arrived == full) {
        simd_complete(w, g, full);
        if (w->outcome != kOk)
            w->fail(kBad, "%s", std::string(w->message).c_str());
        wake_simd(w, s, t);
    } else {
        w->block(kAtSimd);
    }
    return g;
}

} // namespace sm

using namespace sm;

extern "C" {

SM_EXPORT uint32_t __sm_simd(uint32_t op, uint32_t type, uint32_t value, uint32_t arg,
                             uint32_t fill)
{
    Worker *w = this_worker;
    int lane = w->current->thread % w->lanes;
    return meet(w, op, type, __builtin_return_address(0), value, arg, fill, nullptr).value[lane];
}

SM_EXPORT uint64_t __sm_simd_mask(bool vote)
{
    return meet(this_worker, kVote, 0, __builtin_return_address(0), vote, 0, 0, nullptr).mask;
}

SM_EXPORT void __sm_simd_barrier(uint32_t flags)
{
    meet(this_worker, kBarrier, 0, __builtin_return_address(0), 0, flags, 0, nullptr);
}

SM_EXPORT void __sm_simd_mma(float *d, const float *a, const float *b, const float *c)
{
    Worker *w = this_worker;
    float in[6] = {a[0], a[1], b[0], b[1], c[0], c[1]};
    int lane = w->current->thread % w->lanes;
    SimdGroup &g = meet(w, kMatrix, 0, __builtin_return_address(0), 0, 0, 0, in);
    d[0] = g.matrix[lane][6];
    d[1] = g.matrix[lane][7];
}

SM_EXPORT void __sm_simd_matrix_check(void)
{
    Worker *w = this_worker;
    if (w->lanes != 32)
        w->fail(kBad, "%s: simdgroup_matrix needs SIMD-groups of 32 lanes, not %d",
                w->kernel->name.c_str(), w->lanes);
}

SM_EXPORT uint32_t __sm_simd_lane(void)
{
    return (uint32_t)(this_worker->current->thread % this_worker->lanes);
}

SM_EXPORT uint32_t __sm_simd_width(void) { return (uint32_t)this_worker->lanes; }

} // extern "C"
