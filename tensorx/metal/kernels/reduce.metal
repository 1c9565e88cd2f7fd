// Reductions of a fused program over any axes. An element of the result is numbered by k < keep, the
// elements folded into it by r < count. A segment of r is folded by one group (rows) or one thread
// (columns); where there are several, their states go to a buffer that reduce_finish folds in order.
// Either way the bits depend on nothing but sizes and the group's size.

$DEFINITIONS
#define FIRST $FIRST
inline $STATE fold_value($STATE s, $VALUE x) { return $FOLD; }
inline $STATE merge_value($STATE s, $STATE t) { return $MERGE; }
#if $WITH_INDEX
// Whether value t at j replaces s at i: better, or as good and earlier. NO_INDEX marks an empty state.
inline bool replaces($STATE s, $INDEX i, $STATE t, $INDEX j)
{
    if (j == NO_INDEX || i == NO_INDEX)
        return j != NO_INDEX;
    bool better = $BETTER;
    bool worse = $WORSE;
    return better || (!worse && j < i);
}
#define FOLD(x, j) if (replaces(s, at, x, j)) { s = x; at = j; }
#define MERGE(t, j) if (replaces(s, at, t, j)) { s = t; at = j; }
#else
#define FOLD(x, j) s = fold_value(s, x);
#define MERGE(t, j) s = merge_value(s, t);
#endif
