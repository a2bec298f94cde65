#include "loops.h"

void cholesky(int64_t n, double *A) {
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < i; j++) {
            double s = A[i * n + j];
            for (int64_t k = 0; k < j; k++) s -= A[i * n + k] * A[j * n + k];
            A[i * n + j] = s / A[j * n + j];
        }
        double s = A[i * n + i];
        for (int64_t k = 0; k < i; k++) s -= A[i * n + k] * A[i * n + k];
        A[i * n + i] = sqrt(s);
    }
}

void lu(int64_t n, double *A) {
    for (int64_t k = 0; k < n; k++) {
        ROWS((n - k) * (n - k))
        for (int64_t i = k + 1; i < n; i++) {
            double f = A[i * n + k] /= A[k * n + k];
            for (int64_t j = k + 1; j < n; j++) A[i * n + j] -= f * A[k * n + j];
        }
    }
}

void trmm(int64_t n, double alpha, const double *A, double *B) {
    for (int64_t i = 0; i < n; i++) {
        for (int64_t k = i + 1; k < n; k++) {
            double f = A[k * n + i];
            for (int64_t j = 0; j < n; j++) B[i * n + j] += f * B[k * n + j];
        }
        for (int64_t j = 0; j < n; j++) B[i * n + j] *= alpha;
    }
}

void matmult(int64_t n, const float *X, const float *Y, float *out) {
    ROWS(n * n * n)
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) out[i * n + j] = 0;
        for (int64_t k = 0; k < n; k++) {
            float f = X[i * n + k];
            for (int64_t j = 0; j < n; j++) out[i * n + j] += f * Y[k * n + j];
        }
    }
}

void matmult_tropical(int64_t n, const double *X, const double *Y, double *out) {
    ROWS(n * n * n)
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) out[i * n + j] = INFINITY;
        for (int64_t k = 0; k < n; k++) {
            double f = X[i * n + k];
            for (int64_t j = 0; j < n; j++) {
                double v = f + Y[k * n + j];
                out[i * n + j] = v < out[i * n + j] ? v : out[i * n + j];
            }
        }
    }
}

void tensor_rotation(int64_t n, const double *T, const double *g, double *out) {
    ROWS(n * n * n * n * n * n * n * n)
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            for (int64_t k = 0; k < n; k++)
                for (int64_t l = 0; l < n; l++) {
                    double s = 0;
                    for (int64_t a = 0; a < n; a++)
                        for (int64_t b = 0; b < n; b++)
                            for (int64_t c = 0; c < n; c++)
                                for (int64_t d = 0; d < n; d++)
                                    s += g[i * n + a] * g[j * n + b] * g[k * n + c] * g[l * n + d] *
                                         T[((a * n + b) * n + c) * n + d];
                    out[((i * n + j) * n + k) * n + l] = s;
                }
}

void fft_radix_two(int64_t n, const double *x, double *a) {
    int bits = 0;
    while ((1 << bits) < n) bits++;
    for (int64_t i = 0; i < n; i++) {
        int64_t r = 0;
        for (int b = 0; b < bits; b++)
            if (i & (1 << b)) r |= 1 << (bits - 1 - b);
        a[2 * r] = x[2 * i], a[2 * r + 1] = x[2 * i + 1];
    }
    for (int64_t half = 1; half < n; half *= 2) {
        double sr = cos(M_PI / half), si = -sin(M_PI / half);
        for (int64_t start = 0; start < n; start += 2 * half) {
            double wr = 1, wi = 0;
            for (int64_t k = start; k < start + half; k++) {
                double *p = a + 2 * k, *q = a + 2 * (k + half);
                double tr = wr * q[0] - wi * q[1], ti = wr * q[1] + wi * q[0];
                q[0] = p[0] - tr, q[1] = p[1] - ti, p[0] += tr, p[1] += ti;
                double r = wr * sr - wi * si;
                wi = wr * si + wi * sr, wr = r;
            }
        }
    }
}
