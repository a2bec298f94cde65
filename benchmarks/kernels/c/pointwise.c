#include "limits.h"

void copy(int64_t n, const double *a, double *out) {
#pragma omp parallel
    {
        int64_t lo, hi;
        range(n, &lo, &hi);
        stream(out + lo, a + lo, hi - lo);
    }
}

void black_scholes(int64_t n, double rate, double vol, const double *S, const double *K, const double *T, double *call,
                   double *put_) {
    const double root_half = 0.70710678118654752440, drift = rate + 0.5 * vol * vol;
    EACH_BLOCK(n) {
        int64_t m = block_of(n, at);
        double c[BLOCK] __attribute__((aligned(64)));
        double p[BLOCK] __attribute__((aligned(64)));
#pragma omp simd
        for (int64_t i = 0; i < m; i++) {
            double s = S[at + i], k = K[at + i], t = T[at + i];
            double spread = vol * sqrt(t);
            double d1 = (log(s / k) + drift * t) / spread, d2 = d1 - spread;
            double n1 = 0.5 * (1 + erf(d1 * root_half)), n2 = 0.5 * (1 + erf(d2 * root_half));
            double discounted = k * exp(-rate * t);
            c[i] = s * n1 - discounted * n2;
            p[i] = discounted * (1 - n2) - s * (1 - n1);
        }
        put(call + at, c, m, n);
        put(put_ + at, p, m, n);
    }
}

void read_all(int64_t n, const double *a, double *out) {
    double total = 0;
#pragma omp parallel for simd reduction(+ : total)
    for (int64_t i = 0; i < n; i++) total += a[i];
    *out = total;
}

void chain(int64_t n, const double *a, const double *b, const double *c, double *out) {
    EACH_BLOCK(n) {
        int64_t m = block_of(n, at);
        double r[BLOCK] __attribute__((aligned(64)));
        for (int64_t i = 0; i < m; i++)
            r[i] = 2 * a[at + i] * b[at + i] + c[at + i] - a[at + i] / 3 + b[at + i] * c[at + i];
        put(out + at, r, m, n);
    }
}

void weighted_sum(int64_t n, const double *a, const double *b, const double *c, double *out) {
    double total = 0;
#pragma omp parallel for simd reduction(+ : total)
    for (int64_t i = 0; i < n; i++) total += (a[i] - b[i]) * (a[i] - b[i]) * c[i];
    *out = total;
}

void rosenbrock(int64_t n, const double *x, double *out) {
    EACH_BLOCK(n - 2) {
        int64_t m = block_of(n - 2, at);
        double r[BLOCK] __attribute__((aligned(64)));
        const double *p = x + at + 1;
        for (int64_t i = 0; i < m; i++)
            r[i] = 200 * (p[i] - p[i - 1] * p[i - 1]) - 400 * (p[i + 1] - p[i] * p[i]) * p[i] - 2 * (1 - p[i]);
        put(out + 1 + at, r, m, n);
    }
    out[0] = -400 * x[0] * (x[1] - x[0] * x[0]) - 2 * (1 - x[0]);
    out[n - 1] = 200 * (x[n - 1] - x[n - 2] * x[n - 2]);
}

/* Eight strands at once over the range of a thread: each starts where what came before has faded. */
void smoothing(int64_t n, double alpha, const double *x, double *out) {
    const double keep = 1 - alpha;
    const int64_t fade = (int64_t)(log(1e-19) / log(keep)) + 1;
#pragma omp parallel
    {
        int64_t lo, hi;
        range(n, &lo, &hi);
        int64_t strand = (hi - lo) / 8;
        v8 last = all8(0);
        for (int s = 0; s < 8; s++) {
            int64_t start = lo + s * strand, from = start - fade > 0 ? start - fade : 0;
            double y = 0;
            for (int64_t i = from; i < start; i++) y = alpha * x[i] + keep * y;
            last[s] = y;
        }
        for (int64_t i = 0; i < strand; i++) {
            v8 now;
            for (int s = 0; s < 8; s++) now[s] = x[lo + s * strand + i];
            last = all8(alpha) * now + all8(keep) * last;
            for (int s = 0; s < 8; s++) out[lo + s * strand + i] = last[s];
        }
        double y = last[7];
        for (int64_t i = lo + 8 * strand; i < hi; i++) out[i] = y = alpha * x[i] + keep * y;
    }
}

void collatz(int64_t n, int64_t longest, const int64_t *start, int64_t *out) {
#pragma omp parallel for schedule(dynamic, 1024)
    for (int64_t at = 0; at < n; at += 64) {
        int64_t m = n - at < 64 ? n - at : 64, x[64], steps[64] = {0};
        for (int64_t i = 0; i < m; i++) x[i] = start[at + i];
        for (int64_t k = 0; k < longest; k++) {
            int64_t left = 0;
            for (int64_t i = 0; i < m; i++) {
                int64_t going = x[i] != 1, next = x[i] & 1 ? 3 * x[i] + 1 : x[i] >> 1;
                steps[i] += going;
                x[i] = going ? next : x[i];
                left += going;
            }
            if (!left) break;
        }
        for (int64_t i = 0; i < m; i++) out[at + i] = steps[i];
    }
}

void pulses(int64_t n, int64_t count, const double *w, const double *x0, const double *y0, const double *z0, double *xs,
            double *ys, double *zs) {
    double ck[count], sk[count];
    for (int64_t k = 0; k < count; k++) ck[k] = cos(0.1 * k), sk[k] = sin(0.1 * k);
#pragma omp parallel for schedule(static)
    for (int64_t at = 0; at < n; at += 64) {
        int64_t m = n - at < 64 ? n - at : 64;
        double c[64] = {0}, s[64] = {0}, x[64] = {0}, y[64] = {0}, z[64] = {0};
#pragma omp simd
        for (int64_t i = 0; i < m; i++)
            c[i] = cos(w[at + i]), s[i] = sin(w[at + i]), x[i] = x0[at + i], y[i] = y0[at + i], z[i] = z0[at + i];
        for (int64_t k = 0; k < count; k++)
            for (int i = 0; i < 64; i++) {
                double p = c[i] * x[i] - s[i] * y[i], q = s[i] * x[i] + c[i] * y[i];
                x[i] = p;
                y[i] = ck[k] * q - sk[k] * z[i];
                z[i] = sk[k] * q + ck[k] * z[i];
            }
        for (int64_t i = 0; i < m; i++) xs[at + i] = x[i], ys[at + i] = y[i], zs[at + i] = z[i];
    }
}
