// Reading and writing at positions that several index arrays name, or a mask. The loop runs over dimensions of any
// number; each has a size and steps: of x, of the values y, of the position's number, of its cell, of every index
// array. A cell is what two positions have in common when they meet in one element. An index below 0 counts from the
// end; one out of range sets its array's bit in a status word, and nothing is read or written there.
//
// arg: count, dims, free dims, elements of the free dims, cells, positions (or true elements), step of y under a mask;
// for each index array: size of its axis, step of x along it, cells of a step; then the dims.

inline long from_end(long raw, long n)
{
    const long j = raw < 0 ? raw + n : raw;
    return j < n ? j : -1L;
}
inline long from_start(ulong raw, long n) { return raw < ulong(n) ? long(raw) : -1L; }

#define WHICH $WHICH
#define GET 0
#define PUT 1
#define CLAIM 2
#define CELLS 3
#define SORTED 4
#define MASK_GET 5
#define MASK_PUT 6
#define MASK_FILL 7
#define PLACES 8
#define SPREAD 9

#define START                                                                                                   \
    long xo = 0;                                                                                                \
    long yo = 0;                                                                                                \
    long place = 0;                                                                                             \
    long cell = 0;                                                                                              \
    $STARTS

// coordinates of `rest` in dims FIRST, FIRST + 1, ..: the offsets grow
#define WALK(FIRST, COUNT)                                                                                      \
    for (int d = int(FIRST) + int(COUNT) - 1; d >= int(FIRST); d--) {                                           \
        constant ulong *dim = arg + $HEAD + d * $WIDTH;                                                         \
        const $INT size = $INT(dim[0]);                                                                         \
        const $INT whole = rest / size;                                                                         \
        const long c = long(rest - whole * size);                                                               \
        rest = whole;                                                                                           \
        xo += c * long(dim[1]);                                                                                 \
        yo += c * long(dim[2]);                                                                                 \
        place += c * long(dim[3]);                                                                              \
        cell += c * long(dim[4]);                                                                               \
        $STEPS                                                                                                  \
    }

// what the index arrays hold at this position
#define RESOLVE                                                                                                 \
    uint bad = 0u;                                                                                              \
    $RESOLVE

#define EVERY                                                                                                   \
    for ($INT e = tid; e < $INT(arg[0]); e += threads) {                                                        \
        START                                                                                                   \
        $INT rest = e;                                                                                          \
        WALK(0, arg[1])

#if WHICH == GET
kernel void pick_get($ARRAYS device const $ITEM *x [[buffer($B0)]], device $ITEM *y [[buffer($B1)]],
                     device atomic_uint *status [[buffer($B2)]],
                     constant long *off [[buffer($B3)]], constant ulong *arg [[buffer($B4)]],
                     uint tid [[thread_position_in_grid]], uint threads [[threads_per_grid]])
{
    EVERY
        RESOLVE
        $ITEM v = $ZERO;
        if (bad != 0u)
            atomic_fetch_or_explicit(status + off[$B2], bad, memory_order_relaxed);
        else
            v = x[off[$B0] + xo];
        y[off[$B1] + yo] = v;
    }
}
#endif

#if WHICH == PUT
// The position that the cell belongs to writes.
kernel void pick_put($ARRAYS device const $ITEM *y [[buffer($B0)]], device $ITEM *x [[buffer($B1)]],
                     device const uint *winner [[buffer($B2)]],
                     constant long *off [[buffer($B3)]], constant ulong *arg [[buffer($B4)]],
                     uint tid [[thread_position_in_grid]], uint threads [[threads_per_grid]])
{
    EVERY
        RESOLVE
        if (bad == 0u && winner[off[$B2] + cell] == uint(place) + 1u)
            x[off[$B1] + xo] = y[off[$B0] + yo];
    }
}
#endif

#if WHICH == SPREAD
// All positions of a cell write the same value: none has to win, but they may write at once. Elements are parts of
// words, or words of them; neighbours in a word stay what they are.
kernel void pick_spread($ARRAYS device const $ITEM *y [[buffer($B0)]], device atomic_uint *x [[buffer($B1)]],
                        device atomic_uint *status [[buffer($B2)]],
                        constant long *off [[buffer($B3)]], constant ulong *arg [[buffer($B4)]],
                        uint tid [[thread_position_in_grid]], uint threads [[threads_per_grid]])
{
    EVERY
        RESOLVE
        if (bad != 0u) {
            atomic_fetch_or_explicit(status + off[$B2], bad, memory_order_relaxed);
            continue;
        }
        const long at = off[$B1] + xo;
        const $ITEM v = y[off[$B0] + yo];
#if $BYTES == 8
        atomic_store_explicit(x + 2 * at, uint(v), memory_order_relaxed);
        atomic_store_explicit(x + 2 * at + 1, uint(v >> ($BYTES * 4)), memory_order_relaxed);
#elif $BYTES == 4
        atomic_store_explicit(x + at, uint(v), memory_order_relaxed);
#else
        const uint shift = uint(at % (4 / $BYTES)) * ($BYTES * 8u);
        atomic_fetch_and_explicit(x + at / (4 / $BYTES), ~(uint($ITEM(~$ITEM(0))) << shift), memory_order_relaxed);
        atomic_fetch_or_explicit(x + at / (4 / $BYTES), uint(v) << shift, memory_order_relaxed);
#endif
    }
}
#endif

#if WHICH == CLAIM
// winner[cell] = 1 + the last position there; zeroed before. The loop runs over the positions alone.
kernel void pick_claim($ARRAYS device atomic_uint *winner [[buffer($B0)]], device atomic_uint *status [[buffer($B1)]],
                       constant long *off [[buffer($B2)]], constant ulong *arg [[buffer($B3)]],
                       uint tid [[thread_position_in_grid]], uint threads [[threads_per_grid]])
{
    EVERY
        RESOLVE
        if (bad != 0u)
            atomic_fetch_or_explicit(status + off[$B1], bad, memory_order_relaxed);
        else
            atomic_fetch_max_explicit(winner + off[$B0] + cell, uint(e) + 1u, memory_order_relaxed);
    }
}
#endif

#if WHICH == CELLS
// out[position] = its cell, or the number of cells where an index is out of range
kernel void pick_cells($ARRAYS device long *out [[buffer($B0)]], device atomic_uint *status [[buffer($B1)]],
                       constant long *off [[buffer($B2)]], constant ulong *arg [[buffer($B3)]],
                       uint tid [[thread_position_in_grid]], uint threads [[threads_per_grid]])
{
    EVERY
        RESOLVE
        if (bad != 0u)
            atomic_fetch_or_explicit(status + off[$B1], bad, memory_order_relaxed);
        out[off[$B0] + long(e)] = bad != 0u ? long(arg[4]) : cell;
    }
}
#endif

#if WHICH == SORTED
// Positions in the order of their cells: keys[s] is the cell of position order[s]. The last position of a cell
// writes; or the first one adds up all of them in their order, the same bits every time. The dims are those of the
// positions, then the free ones.
kernel void pick_sorted($ARRAYS device const $ITEM *y [[buffer($B0)]], device $ITEM *x [[buffer($B1)]],
                        device const long *keys [[buffer($B2)]], device const long *order [[buffer($B3)]],
                        constant long *off [[buffer($B4)]], constant ulong *arg [[buffer($B5)]],
                        uint tid [[thread_position_in_grid]], uint threads [[threads_per_grid]])
{
    const long count = long(arg[5]);
    for ($INT e = tid; e < $INT(arg[0]); e += threads) {
        const $INT line = e / $INT(arg[3]);
        const long s = long(line);
        const long key = keys[off[$B2] + s];
        if (key >= long(arg[4]))
            continue;
#if $ACCUMULATE
        if (s > 0 && keys[off[$B2] + s - 1] == key)
            continue;
#else
        if (s + 1 < count && keys[off[$B2] + s + 1] == key)
            continue;
#endif
        START
        $INT rest = e - line * $INT(arg[3]);
        WALK(arg[1], arg[2])
        const long yfree = yo;
        rest = $INT(order[off[$B3] + s]);
        WALK(0, arg[1])
        RESOLVE
        if (bad != 0u)
            continue;
        device $ITEM *q = x + off[$B1] + xo;
        device const $ITEM *p = y + off[$B0];
#if $ACCUMULATE
        $REGISTER sum = $LOAD_TARGET;
        for (long t = s; t < count && keys[off[$B2] + t] == key; t++) {
            if (t > s) {
                yo = yfree;
                rest = $INT(order[off[$B3] + t]);
                WALK(0, arg[1])
            }
            const $REGISTER v = $LOAD_SOURCE;
            sum = $ADD;
        }
        *q = $STORE;
#else
        *q = p[yo];
#endif
    }
}
#endif

// Under a mask: found[place] counts the true elements up to and with this one.
#define UNDER                                                                                                   \
    const long at = long(found[off[$F] + place]);                                                               \
    const long before = place > 0 ? long(found[off[$F] + place - 1]) : 0L;                                      \
    if (at == before || at > long(arg[5]))                                                                      \
        continue;                                                                                               \
    const long k = at - 1;

#if WHICH == MASK_GET
kernel void mask_get(device const $ITEM *x [[buffer(0)]], device $ITEM *y [[buffer(1)]], device const $FOUND *found [[buffer(2)]],
                     constant long *off [[buffer(3)]], constant ulong *arg [[buffer(4)]],
                     uint tid [[thread_position_in_grid]], uint threads [[threads_per_grid]])
{
    EVERY
        UNDER
        y[off[1] + yo + k * long(arg[6])] = x[off[0] + xo];
    }
}
#endif

#if WHICH == MASK_PUT
kernel void mask_put(device const $ITEM *y [[buffer(0)]], device $ITEM *x [[buffer(1)]], device const $FOUND *found [[buffer(2)]],
                     constant long *off [[buffer(3)]], constant ulong *arg [[buffer(4)]],
                     uint tid [[thread_position_in_grid]], uint threads [[threads_per_grid]])
{
    EVERY
        UNDER
        device $ITEM *q = x + off[1] + xo;
        device const $ITEM *p = y + off[0];
        yo += k * long(arg[6]);
#if $ACCUMULATE
        $REGISTER sum = $LOAD_TARGET;
        const $REGISTER v = $LOAD_SOURCE;
        sum = $ADD;
        *q = $STORE;
#else
        *q = p[yo];
#endif
    }
}
#endif

#if WHICH == MASK_FILL
// The values do not depend on how many elements are true: nothing has to be counted. The mask is the index array.
kernel void mask_fill($ARRAYS device const $ITEM *y [[buffer($B0)]], device $ITEM *x [[buffer($B1)]],
                      constant long *off [[buffer($B2)]], constant ulong *arg [[buffer($B3)]],
                      uint tid [[thread_position_in_grid]], uint threads [[threads_per_grid]])
{
    EVERY
        if ($TRUE == 0)
            continue;
        device $ITEM *q = x + off[$B1] + xo;
        device const $ITEM *p = y + off[$B0];
#if $ACCUMULATE
        $REGISTER sum = $LOAD_TARGET;
        const $REGISTER v = $LOAD_SOURCE;
        sum = $ADD;
        *q = $STORE;
#else
        *q = p[yo];
#endif
    }
}
#endif

#if WHICH == PLACES
// The coordinate of every true element on one axis. arg: count, elements behind a step, size of the axis, step of out
kernel void mask_places(device const $FOUND *found [[buffer(0)]], device long *out [[buffer(1)]],
                        constant long *off [[buffer(2)]], constant ulong *arg [[buffer(3)]],
                        uint tid [[thread_position_in_grid]], uint threads [[threads_per_grid]])
{
    for ($INT e = tid; e < $INT(arg[0]); e += threads) {
        const long at = long(found[off[0] + long(e)]);
        const long before = e > 0 ? long(found[off[0] + long(e) - 1]) : 0L;
        const $INT step = e / $INT(arg[1]);
        if (at != before)
            out[off[1] + (at - 1) * long(arg[3])] = long(step - step / $INT(arg[2]) * $INT(arg[2]));
    }
}
#endif
