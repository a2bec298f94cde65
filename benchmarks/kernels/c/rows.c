#include "limits.h"

void softmax(int64_t rows, int64_t n, const double *X, double *out) {
#pragma omp parallel
    {
        int64_t lo, hi;
        double e[n];
        range(rows, &lo, &hi);
        for (int64_t i = lo; i < hi; i++) {
            const double *x = X + i * n;
            double top = x[0], total = 0;
            for (int64_t j = 1; j < n; j++) top = x[j] > top ? x[j] : top;
#pragma omp simd reduction(+ : total)
            for (int64_t j = 0; j < n; j++) total += e[j] = exp(x[j] - top);
            double scale = 1 / total;
            for (int64_t j = 0; j < n; j++) e[j] *= scale;
            put(out + i * n, e, n, rows * n);
        }
    }
}

void layer_norm(int64_t rows, int64_t n, double epsilon, const double *X, const double *g, const double *b, double *out) {
#pragma omp parallel
    {
        int64_t lo, hi;
        double r[n];
        range(rows, &lo, &hi);
        for (int64_t i = lo; i < hi; i++) {
            const double *x = X + i * n;
            double mean = 0, square = 0;
            for (int64_t j = 0; j < n; j++) mean += x[j];
            mean /= n;
            for (int64_t j = 0; j < n; j++) square += (x[j] - mean) * (x[j] - mean);
            double scale = 1 / sqrt(square / n + epsilon);
            for (int64_t j = 0; j < n; j++) r[j] = (x[j] - mean) * scale * g[j] + b[j];
            put(out + i * n, r, n, rows * n);
        }
    }
}

/* One pass: mean and squares of blocks, merged by Chan's formula. */
void variance(int64_t n, const double *x, double *out) {
    double mean = 0, square = 0, count = 0;
#pragma omp parallel
    {
        int64_t lo, hi;
        double m0 = 0, s0 = 0, c0 = 0;
        range(n, &lo, &hi);
        for (int64_t at = lo; at < hi; at += 2048) {
            int64_t k = hi - at < 2048 ? hi - at : 2048;
            double m = 0, s = 0;
            for (int64_t i = 0; i < k; i++) m += x[at + i];
            m /= k;
            for (int64_t i = 0; i < k; i++) s += (x[at + i] - m) * (x[at + i] - m);
            double d = m - m0;
            s0 += s + d * d * c0 * k / (c0 + k);
            m0 += d * k / (c0 + k);
            c0 += k;
        }
#pragma omp critical
        if (c0 > 0) {
            double d = m0 - mean;
            square += s0 + d * d * count * c0 / (count + c0);
            mean += d * c0 / (count + c0);
            count += c0;
        }
    }
    *out = square / n;
}

void standardise(int64_t rows, int64_t d, const double *X, double *out) {
    double sum[d], square[d], scale[d];
    memset(sum, 0, sizeof sum), memset(square, 0, sizeof square);
#pragma omp parallel
    {
        int64_t lo, hi;
        double s[d], q[d], r[d];
        memset(s, 0, sizeof s), memset(q, 0, sizeof q);
        range(rows, &lo, &hi);
        for (int64_t i = lo; i < hi; i++)
            for (int64_t j = 0; j < d; j++) s[j] += X[i * d + j], q[j] += X[i * d + j] * X[i * d + j];
#pragma omp critical
        for (int64_t j = 0; j < d; j++) sum[j] += s[j], square[j] += q[j];
#pragma omp barrier
#pragma omp single
        for (int64_t j = 0; j < d; j++) {
            sum[j] /= rows;
            scale[j] = 1 / sqrt(square[j] / rows - sum[j] * sum[j]);
        }
        for (int64_t i = lo; i < hi; i++) {
            for (int64_t j = 0; j < d; j++) r[j] = (X[i * d + j] - sum[j]) * scale[j];
            put(out + i * d, r, d, rows * d);
        }
    }
}

/* Values in [0, 1); four tables per thread, so that equal neighbours do not wait for each other. */
void histogram(int64_t n, int64_t bins, const double *x, int64_t *out) {
    memset(out, 0, bins * sizeof *out);
#pragma omp parallel
    {
        int64_t lo, hi, own[4][bins], i;
        memset(own, 0, sizeof own);
        range(n, &lo, &hi);
        for (i = lo; i + 4 <= hi; i += 4)
            for (int k = 0; k < 4; k++) own[k][(int64_t)(x[i + k] * bins)]++;
        for (; i < hi; i++) own[0][(int64_t)(x[i] * bins)]++;
#pragma omp critical
        for (int64_t b = 0; b < bins; b++) out[b] += own[0][b] + own[1][b] + own[2][b] + own[3][b];
    }
}

/* r = running sums of x, from `run` on; returns the last. Only one addition per eight waits for the one before. */
static inline double prefix(int64_t n, const double *x, double run, double *r) {
    int64_t i = 0;
#if defined(__AVX512F__)
    const __m512i one = _mm512_set_epi64(6, 5, 4, 3, 2, 1, 0, 0), two = _mm512_set_epi64(5, 4, 3, 2, 1, 0, 0, 0),
                  four = _mm512_set_epi64(3, 2, 1, 0, 0, 0, 0, 0), last = _mm512_set1_epi64(7);
    __m512d carry = _mm512_set1_pd(run);
    for (; i + 8 <= n; i += 8) {
        __m512d v = _mm512_loadu_pd(x + i);
        v = _mm512_mask_add_pd(v, 0xFE, v, _mm512_permutexvar_pd(one, v));
        v = _mm512_mask_add_pd(v, 0xFC, v, _mm512_permutexvar_pd(two, v));
        v = _mm512_mask_add_pd(v, 0xF0, v, _mm512_permutexvar_pd(four, v));
        _mm512_storeu_pd(r + i, _mm512_add_pd(v, carry));
        carry = _mm512_add_pd(carry, _mm512_permutexvar_pd(last, v));
    }
    run = _mm512_cvtsd_f64(carry);
#endif
    for (; i < n; i++) r[i] = run += x[i];
    return run;
}

/* Two passes, in slabs that stay in the caches between them. */
void cumulative(int64_t n, const double *x, double *out) {
    const int64_t slab = 1 << 17;
    double carry = 0;
    double part[64];
#pragma omp parallel
    for (int64_t at = 0; at < n; at += slab * omp_get_num_threads()) {
        int t = omp_get_thread_num();
        int64_t lo = at + t * slab, hi = lo + slab < n ? lo + slab : n;
        double own = 0;
        for (int64_t i = lo; i < hi; i++) own += x[i];
        part[t] = own;
#pragma omp barrier
        double run = carry;
        for (int k = 0; k < t; k++) run += part[k];
        for (int64_t b = lo; b < hi; b += 256) {
            double r[256];
            int64_t m = hi - b < 256 ? hi - b : 256;
            run = prefix(m, x + b, run, r);
            put(out + b, r, m, n);
        }
#pragma omp barrier
#pragma omp single
        for (int k = 0; k < omp_get_num_threads(); k++) carry += part[k];
    }
}

/* Two threads at most: the second has a grid of its own. */
void splat(int64_t n, int64_t grid, const double *x, const double *y, const double *w, double *spare, double *out) {
#pragma omp parallel num_threads(2)
    {
        int64_t lo, hi;
        double *own = omp_get_thread_num() ? spare : out;
        memset(own, 0, grid * grid * sizeof *own);
        range(n, &lo, &hi);
        for (int64_t i = lo; i < hi; i++) own[(int64_t)(y[i] * grid) * grid + (int64_t)(x[i] * grid)] += w[i];
#pragma omp barrier
        if (omp_get_num_threads() == 2) {
            range(grid * grid, &lo, &hi);
            for (int64_t i = lo; i < hi; i++) out[i] += spare[i];
        }
    }
}
