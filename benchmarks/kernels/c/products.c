#include "limits.h"

#define ROWS 4   /* of a matrix that are multiplied together: the vector they share is loaded once */
#define BLOCK_ROWS 64 /* of a tall matrix, copied into the first cache with rows of whole vectors */
#define WIDE 7   /* vectors of a row, at most */

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

/* Rows of d elements copied to rows of `wide` vectors, with zeros after them. */
static inline void widened(int64_t m, int64_t d, int64_t wide, const double *x, double *to) {
    for (int64_t i = 0; i < m; i++) {
        memcpy(to + i * wide * 8, x + i * d, d * sizeof *to);
        memset(to + i * wide * 8 + d, 0, (wide * 8 - d) * sizeof *to);
    }
}

/* Four columns by all vectors from that of the first column on, summed over the rows of a block. */
#define FOUR_COLUMNS(vectors)                                                                       \
    static void four_columns_##vectors(int64_t m, int64_t wide, int64_t j, const double *x, double *g) { \
        v8 s[4][vectors];                                                                           \
        int64_t first = wide - vectors;                                                             \
        for (int c = 0; c < 4; c++)                                                                 \
            for (int v = 0; v < vectors; v++) s[c][v] = load8(g + (j + c) * wide * 8 + (first + v) * 8); \
        for (int64_t i = 0; i < m; i++) {                                                           \
            const double *p = x + i * wide * 8;                                                     \
            v8 r[vectors];                                                                          \
            _Pragma("GCC unroll 8") for (int v = 0; v < vectors; v++) r[v] = load8(p + (first + v) * 8); \
            _Pragma("GCC unroll 4") for (int c = 0; c < 4; c++) {                                   \
                v8 one = all8(p[j + c]);                                                            \
                _Pragma("GCC unroll 8") for (int v = 0; v < vectors; v++) s[c][v] += one * r[v];    \
            }                                                                                       \
        }                                                                                           \
        for (int c = 0; c < 4; c++)                                                                 \
            for (int v = 0; v < vectors; v++) *(v8u *)(g + (j + c) * wide * 8 + (first + v) * 8) = s[c][v]; \
    }
FOUR_COLUMNS(1)
FOUR_COLUMNS(2)
FOUR_COLUMNS(3)
FOUR_COLUMNS(4)
FOUR_COLUMNS(5)
FOUR_COLUMNS(6)
FOUR_COLUMNS(7)

/* X.T @ X for up to 56 columns: what is right of the diagonal, then mirrored. */
void tall_gram(int64_t rows, int64_t d, const double *X, double *out) {
    static void (*const four[])(int64_t, int64_t, int64_t, const double *, double *) = {
        0, four_columns_1, four_columns_2, four_columns_3, four_columns_4, four_columns_5, four_columns_6, four_columns_7};
    int64_t wide = (d + 7) / 8;
    memset(out, 0, d * d * sizeof *out);
#pragma omp parallel
    {
        double x[BLOCK_ROWS * WIDE * 8], g[(WIDE * 8) * (WIDE * 8)];
        memset(g, 0, sizeof g);
#pragma omp for schedule(static)
        for (int64_t at = 0; at < rows; at += BLOCK_ROWS) {
            int64_t m = rows - at < BLOCK_ROWS ? rows - at : BLOCK_ROWS;
            widened(m, d, wide, X + at * d, x);
            for (int64_t j = 0; j < d; j += 4) four[wide - j / 8](m, wide, j, x, g);
        }
#pragma omp critical
        for (int64_t i = 0; i < d; i++)
            for (int64_t j = i; j < d; j++) out[i * d + j] += g[i * wide * 8 + j];
    }
    for (int64_t i = 0; i < d; i++)
        for (int64_t j = 0; j < i; j++) out[i * d + j] = out[j * d + i];
}

#define TILE_ROWS 8 /* by three vectors: sums in 24 registers */

/* max(X @ W, 0) for up to 24 columns of W. */
void tall_project(int64_t rows, int64_t d, int64_t k, const double *X, const double *W, double *out) {
    double wide[d * 24];
    for (int64_t j = 0; j < d; j++)
        for (int64_t c = 0; c < 24; c++) wide[j * 24 + c] = c < k ? W[j * k + c] : 0;
#pragma omp parallel
    {
        double made[BLOCK_ROWS * 24];
#pragma omp for schedule(static)
        for (int64_t at = 0; at < rows; at += BLOCK_ROWS) {
            int64_t m = rows - at < BLOCK_ROWS ? rows - at : BLOCK_ROWS;
            for (int64_t i = 0; i < m; i += TILE_ROWS) {
                const double *x = X + (at + (i + TILE_ROWS <= m ? i : m < TILE_ROWS ? 0 : m - TILE_ROWS)) * d;
                int64_t have = m < TILE_ROWS ? m : TILE_ROWS, row = (x - X) / d - at;
                v8 s[TILE_ROWS][3] = {0};
                for (int64_t j = 0; j < d; j++) {
                    v8 w0 = load8(wide + j * 24), w1 = load8(wide + j * 24 + 8), w2 = load8(wide + j * 24 + 16);
#pragma GCC unroll 8
                    for (int r = 0; r < TILE_ROWS; r++) {
                        v8 one = all8(x[(r < have ? r : 0) * d + j]);
                        s[r][0] += one * w0, s[r][1] += one * w1, s[r][2] += one * w2;
                    }
                }
                for (int64_t r = 0; r < have; r++) {
                    double whole[24];
                    for (int v = 0; v < 3; v++) *(v8u *)(whole + 8 * v) = s[r][v];
                    for (int64_t c = 0; c < k; c++) made[(row + r) * k + c] = whole[c] > 0 ? whole[c] : 0;
                }
            }
            put(out + at * k, made, m * k, rows * k);
        }
    }
}
