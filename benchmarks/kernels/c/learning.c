#include "limits.h"

/* X.T @ (sigmoid(X @ w) - y): X is read once, 64 rows at a time. */
void logistic(int64_t rows, int64_t d, const double *X, const double *y, const double *w, double *out) {
    memset(out, 0, d * sizeof *out);
#pragma omp parallel
    {
        double own[d], r[64];
        memset(own, 0, sizeof own);
#pragma omp for schedule(static)
        for (int64_t at = 0; at < rows; at += 64) {
            int64_t m = rows - at < 64 ? rows - at : 64;
            const double *x = X + at * d;
            for (int64_t i = 0; i < m; i++) {
                double z = 0;
                for (int64_t j = 0; j < d; j++) z += x[i * d + j] * w[j];
                r[i] = z;
            }
#pragma omp simd
            for (int64_t i = 0; i < m; i++) r[i] = 1 / (1 + exp(-r[i])) - y[at + i];
            int64_t i = 0;
            for (; i + 4 <= m; i += 4) {
                const double *p = x + i * d;
                for (int64_t j = 0; j < d; j++)
                    own[j] += p[j] * r[i] + p[j + d] * r[i + 1] + p[j + 2 * d] * r[i + 2] + p[j + 3 * d] * r[i + 3];
            }
            for (; i < m; i++)
                for (int64_t j = 0; j < d; j++) own[j] += x[i * d + j] * r[i];
        }
#pragma omp critical
        for (int64_t j = 0; j < d; j++) out[j] += own[j];
    }
}

void line_fit(int64_t n, const double *x, const double *y, double *slope, double *offset) {
    double sx = 0, sy = 0, sxy = 0, sxx = 0;
#pragma omp parallel for simd reduction(+ : sx, sy, sxy, sxx)
    for (int64_t i = 0; i < n; i++) sx += x[i], sy += y[i], sxy += x[i] * y[i], sxx += x[i] * x[i];
    double mx = sx / n, my = sy / n;
    *slope = (sxy / n - mx * my) / (sxx / n - mx * mx);
    *offset = my - *slope * mx;
}

#define TOGETHER 3 /* rows whose distances to 64 centres fill the registers */

/* The nearest of k centres for m rows; centres are columns of T, half their squares come first. */
static inline void nearest(int64_t m, int64_t d, int64_t k, const double *x, const double *T, const double *half,
                           int64_t *label) {
    double least[TOGETHER];
    for (int64_t r = 0; r < m; r++) least[r] = INFINITY, label[r] = 0;
    for (int64_t c = 0; c < k; c += 64) {
        v8 s[TOGETHER][8];
        for (int r = 0; r < TOGETHER; r++)
            for (int v = 0; v < 8; v++) s[r][v] = load8(half + c + 8 * v);
        for (int64_t j = 0; j < d; j++) {
            const double *t = T + j * k + c;
            v8 x0 = all8(x[j]), x1 = all8(x[d * (m > 1) + j]), x2 = all8(x[2 * d * (m > 2) + j]);
#pragma GCC unroll 8
            for (int v = 0; v < 8; v++) {
                v8 centre = load8(t + 8 * v);
                s[0][v] -= x0 * centre;
                s[1][v] -= x1 * centre;
                s[2][v] -= x2 * centre;
            }
        }
        for (int64_t r = 0; r < m; r++) {
            v8 low = s[r][0];
            for (int v = 1; v < 8; v++) low = min8(low, s[r][v]);
            double top = low[0];
            for (int i = 1; i < 8; i++) top = low[i] < top ? low[i] : top;
            if (top < least[r]) {
                least[r] = top;
                for (int v = 0; v < 8; v++) {
#if defined(__AVX512F__)
                    unsigned hit = _mm512_cmp_pd_mask((__m512d)s[r][v], _mm512_set1_pd(top), _CMP_EQ_OQ);
#else
                    unsigned hit = 0;
                    for (int i = 0; i < 8; i++) hit |= (unsigned)(s[r][v][i] == top) << i;
#endif
                    if (hit) {
                        label[r] = c + 8 * v + __builtin_ctz(hit);
                        break;
                    }
                }
            }
        }
    }
}

/* One Lloyd iteration: X is read once. k is a multiple of 64. */
void kmeans(int64_t rows, int64_t d, int64_t k, const double *X, const double *C, double *out) {
    double *T = aligned_alloc(64, k * d * sizeof *T), *half = aligned_alloc(64, k * sizeof *half);
    double *all = calloc(k * (d + 1), sizeof *all);
    for (int64_t c = 0; c < k; c++) {
        half[c] = 0;
        for (int64_t j = 0; j < d; j++) T[j * k + c] = C[c * d + j], half[c] += 0.5 * C[c * d + j] * C[c * d + j];
    }
#pragma omp parallel
    {
        double *own = calloc(k * (d + 1), sizeof *own);
#pragma omp for schedule(static)
        for (int64_t at = 0; at < rows; at += TOGETHER) {
            int64_t m = rows - at < TOGETHER ? rows - at : TOGETHER, label[TOGETHER];
            nearest(m, d, k, X + at * d, T, half, label);
            for (int64_t r = 0; r < m; r++) {
                double *sum = own + label[r] * (d + 1);
                const double *x = X + (at + r) * d;
                for (int64_t j = 0; j < d; j++) sum[j] += x[j];
                sum[d] += 1;
            }
        }
#pragma omp critical
        for (int64_t i = 0; i < k * (d + 1); i++) all[i] += own[i];
        free(own);
    }
    for (int64_t c = 0; c < k; c++)
        for (int64_t j = 0; j < d; j++) out[c * d + j] = all[c * (d + 1) + j] / all[c * (d + 1) + d];
    free(T), free(half), free(all);
}
