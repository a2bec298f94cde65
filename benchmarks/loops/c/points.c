#include "loops.h"

void n_body(int64_t n, int64_t steps, double dt, const double *mass, double *x, double *v) {
    for (int64_t t = 0; t < steps; t++) {
        ROWS(n * n * 8)
        for (int64_t i = 0; i < n; i++) {
            double a[3] = {0, 0, 0};
            for (int64_t j = 0; j < n; j++) {
                double dx = x[3 * j] - x[3 * i], dy = x[3 * j + 1] - x[3 * i + 1], dz = x[3 * j + 2] - x[3 * i + 2];
                double d = dx * dx + dy * dy + dz * dz + 0.01, f = mass[j] / (d * sqrt(d));
                a[0] += f * dx, a[1] += f * dy, a[2] += f * dz;
            }
            for (int k = 0; k < 3; k++) v[3 * i + k] += dt * a[k];
        }
        for (int64_t i = 0; i < 3 * n; i++) x[i] += dt * v[i];
    }
}

void kmeans(int64_t n, int64_t d, int64_t k, int64_t turns, const double *X, double *centres, int64_t *labels) {
    double *sums = malloc(k * d * sizeof *sums);
    int64_t *counts = malloc(k * sizeof *counts);
    for (int64_t t = 0; t < turns; t++) {
        ROWS(n * d * k)
        for (int64_t i = 0; i < n; i++) {
            double best = INFINITY;
            int64_t at = 0;
            for (int64_t c = 0; c < k; c++) {
                double s = 0;
                for (int64_t j = 0; j < d; j++) {
                    double e = X[i * d + j] - centres[c * d + j];
                    s += e * e;
                }
                if (s < best) best = s, at = c;
            }
            labels[i] = at;
        }
        memset(sums, 0, k * d * sizeof *sums);
        memset(counts, 0, k * sizeof *counts);
        for (int64_t i = 0; i < n; i++) {
            counts[labels[i]]++;
            for (int64_t j = 0; j < d; j++) sums[labels[i] * d + j] += X[i * d + j];
        }
        for (int64_t c = 0; c < k; c++)
            if (counts[c])
                for (int64_t j = 0; j < d; j++) centres[c * d + j] = sums[c * d + j] / counts[c];
    }
    free(sums);
    free(counts);
}

void allpairs_distances(int64_t n, int64_t m, int64_t d, const double *X, const double *Y, double *out) {
    ROWS(n * m * d)
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < m; j++) {
            double s = 0;
            for (int64_t k = 0; k < d; k++) {
                double e = X[i * d + k] - Y[j * d + k];
                s += e * e;
            }
            out[i * m + j] = sqrt(s);
        }
}

static inline double square(double x) { return x * x; }

void arc_distance(int64_t n, const double *a, const double *b, double *out) {
    ROWS(n * n * 50)
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            double t = square(sin((a[2 * i] - b[2 * j]) / 2));
            double p = t + cos(a[2 * i]) * cos(b[2 * j]) * square(sin((a[2 * i + 1] - b[2 * j + 1]) / 2));
            out[i * n + j] = 2 * atan2(sqrt(p), sqrt(1 - p));
        }
}

void rosenbrock(int64_t n, const double *x, double *out) {
    ROWS(n)
    for (int64_t i = 1; i < n - 1; i++)
        out[i] = 200 * (x[i] - x[i - 1] * x[i - 1]) - 400 * (x[i + 1] - x[i] * x[i]) * x[i] - 2 * (1 - x[i]);
    out[0] = -400 * x[0] * (x[1] - x[0] * x[0]) - 2 * (1 - x[0]);
    out[n - 1] = 200 * (x[n - 1] - x[n - 2] * x[n - 2]);
}

void simple_regression(int64_t n, const double *x, const double *y, double *out) {
    double sx = 0, sy = 0, cov = 0, var = 0;
    for (int64_t i = 0; i < n; i++) sx += x[i], sy += y[i];
    double mx = sx / n, my = sy / n;
    for (int64_t i = 0; i < n; i++) cov += (x[i] - mx) * (y[i] - my), var += (x[i] - mx) * (x[i] - mx);
    out[0] = cov / var, out[1] = my - cov / var * mx;
}

void smoothing(int64_t n, double alpha, const double *x, double *out) {
    if (n) out[0] = x[0];
    for (int64_t i = 1; i < n; i++) out[i] = (1 - alpha) * out[i - 1] + alpha * x[i];
}

void summation(int64_t n, int64_t m, const double *p, const double *q, const double *w, double *out) {
    ROWS(n * m * 8)
    for (int64_t i = 0; i < n; i++) {
        double s = 0;
        for (int64_t j = 0; j < m; j++) {
            double d = 0;
            for (int k = 0; k < 3; k++) d += square(p[3 * i + k] - q[3 * j + k]);
            s += w[j] / sqrt(d + 1e-6);
        }
        out[i] = s;
    }
}

static inline double folded(double d, double side) {
    d = fabs(d);
    return d > side / 2 ? side - d : d;
}

void periodic_distances(int64_t n, double side, const double *x, const double *y, const double *z, double *out) {
    ROWS(n * n * 4)
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            out[i * n + j] = sqrt(square(folded(x[i] - x[j], side)) + square(folded(y[i] - y[j], side)) +
                                  square(folded(z[i] - z[j], side)));
}

void pulse_propagation(int64_t offsets, int64_t n, const double *angles, const double *off, double *out) {
    ROWS(offsets * n * 50)
    for (int64_t o = 0; o < offsets; o++) {
        double x = 0, y = 0, z = 1, co = cos(off[o]), so = sin(off[o]);
        for (int64_t k = 0; k < n; k++) {
            double c = cos(angles[k]), s = sin(angles[k]), w = c * y - s * z;
            z = s * y + c * z, y = w;
            w = co * x - so * y, y = so * x + co * y, x = w;
        }
        out[3 * o] = x, out[3 * o + 1] = y, out[3 * o + 2] = z;
    }
}

void splat_particles(int64_t n, int64_t side, const double *places, const double *radii, const double *masses,
                     double *image) {
    memset(image, 0, side * side * sizeof *image);
    for (int64_t p = 0; p < n; p++) {
        double h = radii[p], a = places[2 * p], b = places[2 * p + 1];
        int64_t low_i = most(0, (int64_t)((a - h) * side)), high_i = least(side - 1, (int64_t)((a + h) * side));
        int64_t low_j = most(0, (int64_t)((b - h) * side)), high_j = least(side - 1, (int64_t)((b + h) * side));
        for (int64_t i = low_i; i <= high_i; i++)
            for (int64_t j = low_j; j <= high_j; j++) {
                double dx = (i + 0.5) / side - a, dy = (j + 0.5) / side - b, q = (dx * dx + dy * dy) / (h * h);
                if (q < 1) image[i * side + j] += masses[p] * (1 - q) * (1 - q);
            }
    }
}

void simple_average(int64_t n, const double *x, const double *y, const double *z, double *out) {
    for (int64_t i = 0; i < n; i++) out[i] = (x[i] + y[i] + z[i]) / 3;
}

void wald(int64_t n, double mu, double lam, const double *x, double *out) {
    for (int64_t i = 0; i < n; i++) {
        double d = x[i] - mu;
        out[i] = sqrt(lam / (2 * M_PI * x[i] * x[i] * x[i])) * exp(-lam * d * d / (2 * mu * mu * x[i]));
    }
}
