#include "limits.h"

static void edges(int64_t h, int64_t w, const double *u, double *out) {
    memcpy(out, u, w * sizeof *u);
    memcpy(out + (h - 1) * w, u + (h - 1) * w, w * sizeof *u);
    for (int64_t i = 1; i < h - 1; i++) out[i * w] = u[i * w], out[i * w + w - 1] = u[i * w + w - 1];
}

/* `sweeps` times out = row(in), through `spare`; the last goes to `out`. */
#define SWEEPS(expression)                                                              \
    edges(h, w, u, out);                                                                \
    edges(h, w, u, spare);                                                              \
    const double *from = u;                                                             \
    for (int64_t s = 0; s < sweeps; s++) {                                              \
        double *to = (sweeps - s) % 2 ? out : spare;                                    \
        _Pragma("omp parallel if (h * w > 16384)") {                                    \
            int64_t lo, hi;                                                             \
            double r[w];                                                                \
            range(h - 2, &lo, &hi);                                                     \
            for (int64_t i = lo + 1; i < hi + 1; i++) {                                 \
                const double *a = from + i * w;                                         \
                for (int64_t j = 1; j < w - 1; j++) r[j] = expression;                  \
                put(to + i * w + 1, r + 1, w - 2, h * w);                               \
            }                                                                           \
        }                                                                               \
        from = to;                                                                      \
    }

void jacobi(int64_t h, int64_t w, int64_t sweeps, const double *u, double *spare, double *out) {
    SWEEPS(0.25 * (a[j - w] + a[j + w] + a[j - 1] + a[j + 1]))
}

void diffuse(int64_t h, int64_t w, int64_t sweeps, const double *u, double *spare, double *out) {
    SWEEPS(a[j] + 0.1 * (a[j - w] + a[j + w] + a[j - 1] + a[j + 1] - 4 * a[j]))
}

void blur(int64_t h, int64_t w, const double *x, double *out) {
#pragma omp parallel
    {
        int64_t lo, hi;
        double rows[w], r[w];
        range(h - 4, &lo, &hi);
        for (int64_t i = lo; i < hi; i++) {
            const double *p = x + i * w;
            for (int64_t j = 0; j < w; j++)
                rows[j] = 0.0625 * (p[j] + p[j + 4 * w]) + 0.25 * (p[j + w] + p[j + 3 * w]) + 0.375 * p[j + 2 * w];
            for (int64_t j = 0; j < w - 4; j++)
                r[j] = 0.0625 * (rows[j] + rows[j + 4]) + 0.25 * (rows[j + 1] + rows[j + 3]) + 0.375 * rows[j + 2];
            put(out + i * (w - 4), r, w - 4, h * w);
        }
    }
}

void harris(int64_t h, int64_t w, const double *x, double *out) {
#pragma omp parallel
    {
        int64_t lo, hi;
        double a[w], b[w], c[w], r[w];
        range(h - 4, &lo, &hi);
        for (int64_t i = lo; i < hi; i++) {
            for (int64_t j = 0; j < w - 2; j++) {
                double sa = 0, sb = 0, sc = 0;
#pragma GCC unroll 3
                for (int k = 0; k < 3; k++) {
                    const double *p = x + (i + k + 1) * w + j + 1;
                    double dx = 0.5 * (p[1] - p[-1]), dy = 0.5 * (p[w] - p[-w]);
                    sa += dx * dx, sb += dy * dy, sc += dx * dy;
                }
                a[j] = sa, b[j] = sb, c[j] = sc;
            }
            for (int64_t j = 0; j < w - 4; j++) {
                double p = a[j] + a[j + 1] + a[j + 2], q = b[j] + b[j + 1] + b[j + 2], s = c[j] + c[j + 1] + c[j + 2];
                r[j] = p * q - s * s - 0.05 * (p + q) * (p + q);
            }
            put(out + i * (w - 4), r, w - 4, h * w);
        }
    }
}

void conv3(int64_t h, int64_t w, const double *x, const double *k, double *out) {
    double t[9];
    memcpy(t, k, sizeof t);
#pragma omp parallel if (h * w > 16384)
    {
        int64_t lo, hi;
        double r[w];
        range(h - 2, &lo, &hi);
        for (int64_t i = lo; i < hi; i++) {
            const double *p = x + i * w, *q = p + w, *s = q + w;
            for (int64_t j = 0; j < w - 2; j++)
                r[j] = t[0] * p[j] + t[1] * p[j + 1] + t[2] * p[j + 2] + t[3] * q[j] + t[4] * q[j + 1] + t[5] * q[j + 2] +
                       t[6] * s[j] + t[7] * s[j + 1] + t[8] * s[j + 2];
            put(out + i * (w - 2), r, w - 2, h * w);
        }
    }
}

void conv3_clamped(int64_t h, int64_t w, const double *x, const double *k, double *spare, double *out) {
    for (int64_t i = 0; i < h + 2; i++) {
        const double *from = x + (i < 1 ? 0 : i > h ? h - 1 : i - 1) * w;
        double *to = spare + i * (w + 2);
        memcpy(to + 1, from, w * sizeof *x);
        to[0] = from[0], to[w + 1] = from[w - 1];
    }
    conv3(h + 2, w + 2, spare, k, out);
}

void fdtd(int64_t h, int64_t w, int64_t steps, const double *x0, const double *y0, const double *z0, double *ex,
          double *ey, double *hz) {
#pragma omp parallel
    {
        int64_t lo, hi;
        range(h, &lo, &hi);
        memcpy(ex + lo * w, x0 + lo * w, (hi - lo) * w * sizeof *ex);
        memcpy(ey + lo * w, y0 + lo * w, (hi - lo) * w * sizeof *ey);
        memcpy(hz + lo * w, z0 + lo * w, (hi - lo) * w * sizeof *hz);
        for (int64_t s = 0; s < steps; s++) {
#pragma omp barrier
            for (int64_t i = lo; i < hi; i++) {
                double *e = ex + i * w, *f = ey + i * w;
                const double *z = hz + i * w;
                if (i > 0)
                    for (int64_t j = 0; j < w; j++) f[j] -= 0.5 * (z[j] - z[j - w]);
                for (int64_t j = 1; j < w; j++) e[j] -= 0.5 * (z[j] - z[j - 1]);
            }
#pragma omp barrier
            for (int64_t i = lo; i < (hi < h - 1 ? hi : h - 1); i++) {
                double *z = hz + i * w;
                const double *e = ex + i * w, *f = ey + i * w;
                for (int64_t j = 0; j < w - 1; j++) z[j] -= 0.7 * (e[j + 1] - e[j] + f[j + w] - f[j]);
            }
        }
    }
}

void dilation(int64_t h, int64_t w, int64_t k, const double *x, double *out) {
#pragma omp parallel if (h * w > 16384)
    {
        int64_t lo, hi;
        double top[w], r[w];
        range(h - k + 1, &lo, &hi);
        for (int64_t i = lo; i < hi; i++) {
            memcpy(top, x + i * w, w * sizeof *top);
            for (int64_t a = 1; a < k; a++) {
                const double *p = x + (i + a) * w;
                for (int64_t j = 0; j < w; j++) top[j] = p[j] > top[j] ? p[j] : top[j];
            }
            memcpy(r, top, (w - k + 1) * sizeof *r);
            for (int64_t a = 1; a < k; a++)
                for (int64_t j = 0; j < w - k + 1; j++) r[j] = top[j + a] > r[j] ? top[j + a] : r[j];
            put(out + i * (w - k + 1), r, w - k + 1, h * w);
        }
    }
}

/* Every plane of the first axis goes through the other three in two buffers; rows are walked as one where they may be. */
void local_maxima(int64_t a, int64_t b, int64_t c, int64_t d, const double *x, uint8_t *out) {
    int64_t row = c * d, plane = b * row;
#pragma omp parallel if (a * plane > 16384)
    {
        int64_t lo, hi;
        double *s = malloc(2 * plane * sizeof *s), *t = s + plane;
        range(a - 2, &lo, &hi);
        for (int64_t i = lo; i < hi; i++) {
            const double *p = x + i * plane, *mid = p + plane;
            for (int64_t j = 0; j < plane; j++) s[j] = fmax(fmax(p[j], p[j + plane]), p[j + 2 * plane]);
            for (int64_t j = 0; j < plane - 2 * row; j++) t[j] = fmax(fmax(s[j], s[j + row]), s[j + 2 * row]);
            for (int64_t k = 0; k < b - 2; k++) {
                const double *q = t + k * row, *m = mid + (k + 1) * row + d + 1;
                uint8_t *o = out + (i * (b - 2) + k) * (c - 2) * (d - 2);
                for (int64_t j = 0; j < row - 2 * d; j++) s[j] = fmax(fmax(q[j], q[j + d]), q[j + 2 * d]);
                for (int64_t l = 0; l < c - 2; l++)
                    for (int64_t j = 0; j < d - 2; j++) {
                        const double *r = s + l * d + j;
                        o[l * (d - 2) + j] = m[l * d + j] == fmax(fmax(r[0], r[1]), r[2]);
                    }
            }
        }
        free(s);
    }
}

void growcut(int64_t h, int64_t w, int64_t r, const double *image, const double *label, const double *strength,
             double *labels, double *best) {
    int64_t n = w - 2 * r;
#pragma omp parallel for schedule(static) if (h * w > 4096)
    for (int64_t i = r; i < h - r; i++) {
        double *l = labels + (i - r) * n, *b = best + (i - r) * n;
        for (int64_t j = 0; j < n; j++) l[j] = label[i * w + j + r], b[j] = strength[i * w + j + r];
        for (int64_t di = -r; di <= r; di++)
            for (int64_t dj = -r; dj <= r; dj++) {
                int64_t there = (i + di) * w + r + dj, here = i * w + r;
                for (int64_t j = 0; j < n; j++) {
                    double near = (1 - fabs(image[here + j] - image[there + j])) * strength[there + j];
                    int wins = near > b[j];
                    l[j] = wins ? label[there + j] : l[j];
                    b[j] = wins ? near : b[j];
                }
            }
    }
}
