/* What the C versions share. Rows go to all cores where the work (in elements or so) is worth it. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define WORTH 100000
#define PRAGMA(x) _Pragma(#x)
#define ROWS(work) PRAGMA(omp parallel for schedule(static) if ((work) > WORTH))
#define UNEVEN(work) PRAGMA(omp parallel for schedule(dynamic, 4) if ((work) > WORTH))

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
