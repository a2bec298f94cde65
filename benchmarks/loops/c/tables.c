#include "loops.h"

void rna_pairs(int64_t n, const int32_t *seq, int32_t *t) {
    memset(t, 0, n * n * sizeof *t);
    for (int64_t i = n - 1; i >= 0; i--)
        for (int64_t j = i + 1; j < n; j++) {
            int32_t best = most(t[i * n + j], t[i * n + j - 1]);
            if (i + 1 < n) {
                best = most(best, t[(i + 1) * n + j]);
                int32_t bond = i < j - 1 && seq[i] + seq[j] == 3;
                best = most(best, t[(i + 1) * n + j - 1] + bond);
            }
            for (int64_t k = i + 1; k < j; k++) {
                int32_t v = t[i * n + k] + t[(k + 1) * n + j];
                best = v > best ? v : best;
            }
            t[i * n + j] = best;
        }
}

void floyd_warshall(int64_t n, int32_t *p) {
    for (int64_t k = 0; k < n; k++) {
        ROWS(n * n)
        for (int64_t i = 0; i < n; i++) {
            int32_t f = p[i * n + k];
            for (int64_t j = 0; j < n; j++) {
                int32_t v = f + p[k * n + j];
                p[i * n + j] = v < p[i * n + j] ? v : p[i * n + j];
            }
        }
    }
}

void spmv_csr(int64_t n, const int64_t *starts, const int64_t *columns, const double *values, const double *x,
              double *y) {
    ROWS(starts[n])
    for (int64_t i = 0; i < n; i++) {
        double s = 0;
        for (int64_t k = starts[i]; k < starts[i + 1]; k++) s += values[k] * x[columns[k]];
        y[i] = s;
    }
}

void crc16(int64_t n, const uint8_t *data, int64_t *out) {
    int64_t crc = 0xFFFF;
    for (int64_t i = 0; i < n; i++) {
        int64_t now = data[i];
        for (int b = 0; b < 8; b++) {
            crc = (crc ^ now) & 1 ? (crc >> 1) ^ 0x8408 : crc >> 1;
            now >>= 1;
        }
    }
    crc = ~crc & 0xFFFF;
    *out = (crc << 8) | ((crc >> 8) & 0xFF);
}

void collatz(int64_t n, int64_t *out) {
    UNEVEN(n * 100)
    for (int64_t i = 0; i < n; i++) {
        int64_t x = i + 1, count = 0;
        while (x > 1) x = x % 2 ? 3 * x + 1 : x / 2, count++;
        out[i] = count;
    }
}

void sum_loop(int64_t n, const int64_t *x, int64_t *out) {
    int64_t s = 0;
#pragma omp parallel for reduction(+ : s) if (n > WORTH)
    for (int64_t i = 0; i < n; i++) s += x[i];
    *out = s;
}
