/* alloc.h as a shared library of its own, for tests that drive it from Python. */
#include "alloc.h"

void *lib_alloc(size_t nbytes, size_t *capacity) { return tx_alloc(nbytes, capacity); }
void lib_free(void *p, size_t nbytes, size_t capacity) { tx_free(p, nbytes, capacity); }
void lib_stats(tx_mem_stats *out) { tx_get_stats(out); }
void lib_empty_cache(void) { tx_empty_cache(); }
