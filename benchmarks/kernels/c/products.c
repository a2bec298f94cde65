#include "limits.h"

#define ROWS 4 /* of a matrix that are multiplied together: the vector they share is loaded once */

/* a @ (a.T @ (a @ v)): rows are read once for both inner products, and once more. */
void matvec_chain(int64_t n, const double *a, const double *v, double *out) {
    double *sum = calloc(n, sizeof *sum);
#pragma omp parallel
    {
        int64_t lo, hi;
        double *own = calloc(n, sizeof *own);
        range(n, &lo, &hi);
        for (int64_t i = lo; i < hi; i += ROWS) {
            int64_t m = hi - i < ROWS ? hi - i : ROWS;
            const double *p = a + i * n, *q = m > 1 ? p + n : p, *r = m > 2 ? q + n : p, *s = m > 3 ? r + n : p;
            double w = 0, x = 0, y = 0, z = 0;
            for (int64_t j = 0; j < n; j++) w += p[j] * v[j], x += q[j] * v[j], y += r[j] * v[j], z += s[j] * v[j];
            x *= m > 1, y *= m > 2, z *= m > 3;
            for (int64_t j = 0; j < n; j++) own[j] += w * p[j] + x * q[j] + y * r[j] + z * s[j];
        }
#pragma omp critical
        for (int64_t j = 0; j < n; j++) sum[j] += own[j];
#pragma omp barrier
        for (int64_t i = lo; i < hi; i += ROWS) {
            int64_t m = hi - i < ROWS ? hi - i : ROWS;
            const double *p = a + i * n, *q = m > 1 ? p + n : p, *r = m > 2 ? q + n : p, *s = m > 3 ? r + n : p;
            double found[ROWS] = {0, 0, 0, 0};
            for (int64_t j = 0; j < n; j++)
                found[0] += p[j] * sum[j], found[1] += q[j] * sum[j], found[2] += r[j] * sum[j], found[3] += s[j] * sum[j];
            memcpy(out + i, found, m * sizeof *out);
        }
        free(own);
    }
    free(sum);
}
