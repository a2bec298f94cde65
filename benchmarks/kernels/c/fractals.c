#include "limits.h"

/* Points that are iterated at once, until all are out: four vectors of eight hide the latency of a turn. */
#define POINTS 32

void mandelbrot(int64_t n, int64_t turns, const double *c, int64_t *count) {
#pragma omp parallel for schedule(dynamic, 256)
    for (int64_t at = 0; at < n; at += POINTS) {
        int64_t m = n - at < POINTS ? n - at : POINTS;
        double x[POINTS] = {0}, y[POINTS] = {0}, a[POINTS] = {0}, b[POINTS] = {0}, done[POINTS] = {0};
        for (int64_t i = 0; i < m; i++) a[i] = c[2 * (at + i)], b[i] = c[2 * (at + i) + 1];
        for (int64_t k = 0; k < turns; k++) {
            double left = 0;
            for (int i = 0; i < POINTS; i++) {
                double xx = x[i] * x[i], yy = y[i] * y[i], inside = xx + yy <= 4 ? 1 : 0;
                done[i] += inside, left += inside;
                double p = xx - yy + a[i], q = 2 * x[i] * y[i] + b[i];
                x[i] = inside != 0 ? p : x[i], y[i] = inside != 0 ? q : y[i];
            }
            if (left == 0) break;
        }
        for (int64_t i = 0; i < m; i++) count[at + i] = (int64_t)done[i];
    }
}

void julia(int64_t h, int64_t w, int64_t turns, double real, double imag, double cutoff, const double *xs,
           const double *ys, int64_t *count) {
#pragma omp parallel for schedule(dynamic, 8)
    for (int64_t row = 0; row < h; row++)
        for (int64_t at = 0; at < w; at += POINTS) {
            int64_t m = w - at < POINTS ? w - at : POINTS;
            double x[POINTS], y[POINTS], done[POINTS] = {0};
            for (int i = 0; i < POINTS; i++) x[i] = i < m ? xs[at + i] : 2 * cutoff, y[i] = ys[row];
            for (int64_t k = 0; k < turns; k++) {
                double left = 0;
                for (int i = 0; i < POINTS; i++) {
                    double xx = x[i] * x[i], yy = y[i] * y[i], inside = xx + yy < cutoff ? 1 : 0;
                    done[i] += inside, left += inside;
                    double p = xx - yy + real, q = 2 * x[i] * y[i] + imag;
                    x[i] = inside != 0 ? p : x[i], y[i] = inside != 0 ? q : y[i];
                }
                if (left == 0) break;
            }
            for (int64_t i = 0; i < m; i++) count[row * w + at + i] = (int64_t)done[i];
        }
}
