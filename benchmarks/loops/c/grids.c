#include "loops.h"

static void five_points(int64_t n, const double *A, double *B) {
    ROWS(n * n)
    for (int64_t i = 1; i < n - 1; i++)
        for (int64_t j = 1; j < n - 1; j++) {
            const double *a = A + i * n + j;
            B[i * n + j] = 0.2 * (a[0] + a[-1] + a[1] + a[n] + a[-n]);
        }
}

void jacobi_2d(int64_t n, int64_t steps, double *A, double *B) {
    for (int64_t t = 0; t < steps; t++) five_points(n, A, B), five_points(n, B, A);
}

void seidel(int64_t n, int64_t steps, double *A) {
    for (int64_t t = 0; t < steps; t++)
        for (int64_t i = 1; i < n - 1; i++)
            for (int64_t j = 1; j < n - 1; j++) {
                double *a = A + i * n + j;
                a[0] = (a[-n - 1] + a[-n] + a[-n + 1] + a[-1] + a[0] + a[1] + a[n - 1] + a[n] + a[n + 1]) / 9.0;
            }
}

static void diffused(int64_t n, double dt, const double *u, double *v) {
    ROWS(n * n)
    for (int64_t i = 1; i < n - 1; i++)
        for (int64_t j = 1; j < n - 1; j++) {
            const double *a = u + i * n + j;
            v[i * n + j] = a[0] + dt * (a[n] - 2 * a[0] + a[-n] + a[1] - 2 * a[0] + a[-1]);
        }
}

void diffuse(int64_t n, int64_t steps, double dt, double *u, double *v) {
    for (int64_t t = 0; t < steps; t++) diffused(n, dt, u, v), diffused(n, dt, v, u);
}

void fdtd(int64_t n, int64_t steps, double *ex, double *ey, double *hz) {
    for (int64_t t = 0; t < steps; t++) {
        for (int64_t j = 0; j < n; j++) ey[j] = t;
        ROWS(n * n)
        for (int64_t i = 1; i < n; i++)
            for (int64_t j = 0; j < n; j++) ey[i * n + j] -= 0.5 * (hz[i * n + j] - hz[(i - 1) * n + j]);
        ROWS(n * n)
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 1; j < n; j++) ex[i * n + j] -= 0.5 * (hz[i * n + j] - hz[i * n + j - 1]);
        ROWS(n * n)
        for (int64_t i = 0; i < n - 1; i++)
            for (int64_t j = 0; j < n - 1; j++)
                hz[i * n + j] -= 0.7 * (ex[i * n + j + 1] - ex[i * n + j] + ey[(i + 1) * n + j] - ey[i * n + j]);
    }
}

void harris(int64_t n, const float *I, float *out) {
    int64_t m = n - 2, o = n - 4;
    float *xx = malloc(3 * m * m * sizeof *xx), *yy = xx + m * m, *xy = yy + m * m;
    ROWS(n * n)
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < m; j++) {
            const float *a = I + (i + 1) * n + j + 1;
            float dx = (a[1] - a[-1]) / 2, dy = (a[n] - a[-n]) / 2;
            xx[i * m + j] = dx * dx, yy[i * m + j] = dy * dy, xy[i * m + j] = dx * dy;
        }
#define CROSS(x) (x[-m] + x[-1] + x[m] + x[1] + x[0])
    ROWS(n * n)
    for (int64_t i = 0; i < o; i++)
        for (int64_t j = 0; j < o; j++) {
            int64_t at = (i + 1) * m + j + 1;
            const float *p = xx + at, *q = yy + at, *r = xy + at;
            float a = CROSS(p), b = CROSS(q), c = CROSS(r);
            out[i * o + j] = a * b - c * c - 0.05f * (a + b) * (a + b);
        }
    free(xx);
}

void convolution_clamped(int64_t n, int64_t k, const double *x, const double *w, double *out) {
    ROWS(n * n * k * k)
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            double s = 0;
            for (int64_t a = 0; a < k; a++)
                for (int64_t b = 0; b < k; b++) {
                    int64_t y = least(most(i + a - k / 2, 0), n - 1), z = least(most(j + b - k / 2, 0), n - 1);
                    s += w[a * k + b] * x[y * n + z];
                }
            out[i * n + j] = s;
        }
}

void simple_conv(int64_t n, const double *x, const double *w, double *out) {
    int64_t m = n - 2;
    ROWS(9 * n * n)
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < m; j++) {
            double s = 0;
            for (int a = 0; a < 3; a++)
                for (int b = 0; b < 3; b++) s += w[3 * a + b] * x[(i + a) * n + j + b];
            out[i * m + j] = s;
        }
}

void gaussian_blur(int64_t h, int64_t w, int64_t taps, const double *x, const double *k, double *out) {
    int64_t r = taps / 2;
    double *rows = calloc(h * w, sizeof *rows);
    ROWS(h * w * taps)
    for (int64_t i = 0; i < h; i++)
        for (int64_t t = 0; t < taps; t++)
            for (int64_t j = r; j < w - r; j++) rows[i * w + j] += k[t] * x[i * w + j + t - r];
    memset(out, 0, h * w * sizeof *out);
    ROWS(h * w * taps)
    for (int64_t i = r; i < h - r; i++)
        for (int64_t t = 0; t < taps; t++)
            for (int64_t j = r; j < w - r; j++) out[i * w + j] += k[t] * rows[(i + t - r) * w + j];
    free(rows);
}

void growcut(int64_t n, int64_t r, const double *x, const double *state, double *new, int64_t *changes) {
    int64_t count = 0;
#pragma omp parallel for reduction(+ : count) if (n * n * r * r > WORTH)
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            double label = state[2 * (i * n + j)], strength = state[2 * (i * n + j) + 1];
            int64_t moved = 0;
            for (int64_t a = most(0, i - r); a < least(n, i + r + 1); a++)
                for (int64_t b = most(0, j - r); b < least(n, j + r + 1); b++) {
                    if (a == i && b == j) continue;
                    double attack = (1 - fabs(x[a * n + b] - x[i * n + j])) * state[2 * (a * n + b) + 1];
                    if (attack > strength) label = state[2 * (a * n + b)], strength = attack, moved = 1;
                }
            new[2 * (i * n + j)] = label, new[2 * (i * n + j) + 1] = strength;
            count += moved;
        }
    *changes = count;
}

void dilation(int64_t n, int64_t k, const uint8_t *x, uint8_t *out) {
    int64_t r = k / 2;
    ROWS(n * n * k * k)
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            uint8_t best = x[i * n + j];
            for (int64_t a = most(0, i - r); a < least(n, i + r + 1); a++)
                for (int64_t b = most(0, j - r); b < least(n, j + r + 1); b++)
                    best = x[a * n + b] > best ? x[a * n + b] : best;
            out[i * n + j] = best;
        }
}

void dilation_separable(int64_t n, int64_t k, const uint8_t *x, uint8_t *out) {
    int64_t r = k / 2;
    uint8_t *rows = malloc(n * n);
    ROWS(n * n * k)
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            uint8_t best = x[i * n + j];
            for (int64_t b = most(0, j - r); b < least(n, j + r + 1); b++)
                best = x[i * n + b] > best ? x[i * n + b] : best;
            rows[i * n + j] = best;
        }
    ROWS(n * n * k)
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) out[i * n + j] = rows[i * n + j];
        for (int64_t a = most(0, i - r); a < least(n, i + r + 1); a++)
            for (int64_t j = 0; j < n; j++)
                out[i * n + j] = rows[a * n + j] > out[i * n + j] ? rows[a * n + j] : out[i * n + j];
    }
    free(rows);
}

void mandelbrot(int64_t h, int64_t w, int64_t turns, int64_t *out) {
    UNEVEN(h * w * turns)
    for (int64_t i = 0; i < h; i++)
        for (int64_t j = 0; j < w; j++) {
            double a = -2.0 + 2.6 * j / w, b = -1.2 + 2.4 * i / h, x = 0, y = 0;
            int64_t k = 0;
            for (; k < turns && x * x + y * y <= 4; k++) {
                double z = x * x - y * y + a;
                y = 2 * x * y + b, x = z;
            }
            out[i * w + j] = k;
        }
}

void julia(int64_t n, int64_t turns, double real, double imag, double cutoff, int64_t *out) {
    UNEVEN(n * n * turns)
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            double x = -1.5 + 3.0 * j / n, y = -1.5 + 3.0 * i / n;
            int64_t k = 0;
            for (; k < turns && x * x + y * y < cutoff; k++) {
                double z = x * x - y * y + real;
                y = 2 * x * y + imag, x = z;
            }
            out[i * n + j] = k;
        }
}

void local_maxima(int64_t a, int64_t b, int64_t c, int64_t d, const double *x, uint8_t *out) {
#define AT(i, j, k, l) x[(((i) * b + (j)) * c + (k)) * d + (l)]
    ROWS(a * b * c * d)
    for (int64_t i = 0; i < a; i++)
        for (int64_t j = 0; j < b; j++)
            for (int64_t k = 0; k < c; k++)
                for (int64_t l = 0; l < d; l++) {
                    double v = AT(i, j, k, l);
                    out[((i * b + j) * c + k) * d + l] =
                        AT(i + 1 < a ? i + 1 : 0, j, k, l) <= v && AT(i ? i - 1 : a - 1, j, k, l) <= v &&
                        AT(i, j + 1 < b ? j + 1 : 0, k, l) <= v && AT(i, j ? j - 1 : b - 1, k, l) <= v &&
                        AT(i, j, k + 1 < c ? k + 1 : 0, l) <= v && AT(i, j, k ? k - 1 : c - 1, l) <= v &&
                        AT(i, j, k, l + 1 < d ? l + 1 : 0) <= v && AT(i, j, k, l ? l - 1 : d - 1) <= v;
                }
}
