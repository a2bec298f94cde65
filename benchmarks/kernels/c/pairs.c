#include "limits.h"

void distances(int64_t n, int64_t m, int64_t d, int64_t root, const double *A, const double *B, double *out) {
    double *T = malloc(m * d * sizeof *T);
    for (int64_t j = 0; j < m; j++)
        for (int64_t k = 0; k < d; k++) T[k * m + j] = B[j * d + k];
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++)
        for (int64_t at = 0; at < m; at += 32) {
            double s[32] __attribute__((aligned(64))) = {0};
            int64_t w = m - at < 32 ? m - at : 32;
            for (int64_t k = 0; k < d; k++) {
                double a = A[i * d + k];
                const double *t = T + k * m + at;
                if (w == 32) {
#pragma GCC unroll 4
                    for (int v = 0; v < 32; v++) s[v] += (a - t[v]) * (a - t[v]);
                } else {
                    for (int64_t v = 0; v < w; v++) s[v] += (a - t[v]) * (a - t[v]);
                }
            }
            if (root)
                for (int v = 0; v < 32; v++) s[v] = sqrt(s[v]);
            put(out + i * m + at, s, w, n * m);
        }
    free(T);
}

void nbody(int64_t n, double soft, const double *P, const double *mass, double *acc) {
    const double *x = P, *y = P + n, *z = P + 2 * n;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++) {
        double ax = 0, ay = 0, az = 0, px = x[i], py = y[i], pz = z[i];
#pragma omp simd reduction(+ : ax, ay, az)
        for (int64_t j = 0; j < n; j++) {
            double dx = x[j] - px, dy = y[j] - py, dz = z[j] - pz;
            double r2 = dx * dx + dy * dy + dz * dz + soft, s = mass[j] / (r2 * sqrt(r2));
            ax += s * dx, ay += s * dy, az += s * dz;
        }
        acc[3 * i] = ax, acc[3 * i + 1] = ay, acc[3 * i + 2] = az;
    }
}

/* Four rows by 32 columns stay in registers; k runs in blocks that stay in the second cache. */
void tropical(int64_t n, const double *A, const double *B, double *out) {
#pragma omp parallel for schedule(dynamic, 4)
    for (int64_t i = 0; i < n; i += 4) {
        int64_t rows = n - i < 4 ? n - i : 4;
        for (int64_t j = 0; j < n; j += 32) {
            if (rows == 4 && j + 32 <= n) {
                v8 s[4][4];
                for (int r = 0; r < 4; r++)
                    for (int v = 0; v < 4; v++) s[r][v] = all8(INFINITY);
                for (int64_t k = 0; k < n; k++) {
#pragma GCC unroll 4
                    for (int v = 0; v < 4; v++) {
                        v8 b = load8(B + k * n + j + 8 * v);
#pragma GCC unroll 4
                        for (int r = 0; r < 4; r++) {
                            v8 sum = all8(A[(i + r) * n + k]) + b;
                            s[r][v] = min8(sum, s[r][v]);
                        }
                    }
                }
                for (int r = 0; r < 4; r++)
                    for (int v = 0; v < 4; v++) *(v8u *)(out + (i + r) * n + j + 8 * v) = s[r][v];
            } else {
                int64_t cols = n - j < 32 ? n - j : 32;
                for (int64_t r = 0; r < rows; r++) {
                    double s[32];
                    for (int64_t c = 0; c < cols; c++) s[c] = INFINITY;
                    for (int64_t k = 0; k < n; k++) {
                        double a = A[(i + r) * n + k];
                        const double *b = B + k * n + j;
                        for (int64_t c = 0; c < cols; c++) s[c] = a + b[c] < s[c] ? a + b[c] : s[c];
                    }
                    memcpy(out + (i + r) * n + j, s, cols * sizeof *s);
                }
            }
        }
    }
}

void potential(int64_t n, int64_t m, const double *P, const double *Q, const double *w, double *out) {
#pragma omp parallel for schedule(static) if (n * m > 16384)
    for (int64_t i = 0; i < n; i++) {
        double x = P[3 * i], y = P[3 * i + 1], z = P[3 * i + 2], total = 0;
        for (int64_t j = 0; j < m; j++) {
            double dx = x - Q[j], dy = y - Q[m + j], dz = z - Q[2 * m + j];
            total += w[j] / sqrt(dx * dx + dy * dy + dz * dz);
        }
        out[i] = total;
    }
}

#define EACH_ROW_BLOCK(n)                        \
    _Pragma("omp parallel for schedule(static)") \
    for (int64_t i = 0; i < (n); i++)            \
        for (int64_t at = 0; at < (n); at += BLOCK)

void periodic(int64_t n, const double *x, const double *y, const double *z, double *out) {
    EACH_ROW_BLOCK(n) {
        double r[BLOCK] __attribute__((aligned(64)));
        int64_t m = block_of(n, at);
        for (int64_t j = 0; j < m; j++) {
            double dx = fabs(x[i] - x[at + j]), dy = fabs(y[i] - y[at + j]), dz = fabs(z[i] - z[at + j]);
            dx = dx > 0.5 ? 1 - dx : dx, dy = dy > 0.5 ? 1 - dy : dy, dz = dz > 0.5 ? 1 - dz : dz;
            r[j] = sqrt(dx * dx + dy * dy + dz * dz);
        }
        put(out + i * n + at, r, m, n * n);
    }
}

void arc(int64_t n, const double *t1, const double *p1, const double *t2, const double *p2, double *out) {
    double cosine[n];
    for (int64_t j = 0; j < n; j++) cosine[j] = cos(t2[j]);
    EACH_ROW_BLOCK(n) {
        double r[BLOCK] __attribute__((aligned(64)));
        int64_t m = block_of(n, at);
        double c = cos(t1[i]);
#pragma omp simd
        for (int64_t j = 0; j < m; j++) {
            double a = sin((t2[at + j] - t1[i]) / 2), b = sin((p2[at + j] - p1[i]) / 2);
            double h = fabs(a * a + c * cosine[at + j] * b * b);
            r[j] = 2 * atan2(sqrt(h), sqrt(fabs(1 - h)));
        }
        put(out + i * n + at, r, m, n * n);
    }
}
