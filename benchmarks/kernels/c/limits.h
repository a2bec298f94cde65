/* What the limits share: vectors of eight doubles, streaming stores, the range of a thread. */
#pragma once
#include <math.h>
#include <omp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#if defined(__x86_64__)
#include <immintrin.h>
#endif
#endif

#define BLOCK 512 /* elements computed in the first cache before they are streamed out */

typedef double v8 __attribute__((vector_size(64)));
typedef double v8u __attribute__((vector_size(64), aligned(8)));

static inline v8 load8(const double *p) { return *(const v8u *)p; }
static inline v8 all8(double x) { return (v8){x, x, x, x, x, x, x, x}; }

static inline v8 min8(v8 a, v8 b) {
#if defined(__AVX512F__)
    return (v8)_mm512_min_pd((__m512d)a, (__m512d)b);
#else
    for (int i = 0; i < 8; i++) a[i] = b[i] < a[i] ? b[i] : a[i];
    return a;
#endif
}

/* Every thread has its blocks one after the other. */
#define EACH_BLOCK(n) _Pragma("omp parallel for schedule(static)") for (int64_t at = 0; at < (n); at += BLOCK)
static inline int64_t block_of(int64_t n, int64_t at) { return n - at < BLOCK ? n - at : BLOCK; }

static inline void range(int64_t n, int64_t *lo, int64_t *hi) {
    int64_t t = omp_get_thread_num(), k = omp_get_num_threads();
    *lo = n * t / k;
    *hi = n * (t + 1) / k;
}

/* dst = src past the caches. */
static inline void stream(double *dst, const double *src, int64_t n) {
    int64_t i = 0;
#if defined(__AVX512F__)
    for (; i < n && ((uintptr_t)(dst + i) & 63); i++) dst[i] = src[i];
    for (; i + 8 <= n; i += 8) _mm512_stream_pd(dst + i, _mm512_loadu_pd(src + i));
#elif defined(__AVX__)
    for (; i < n && ((uintptr_t)(dst + i) & 31); i++) dst[i] = src[i];
    for (; i + 4 <= n; i += 4) _mm256_stream_pd(dst + i, _mm256_loadu_pd(src + i));
#endif
    for (; i < n; i++) dst[i] = src[i];
}

/* Streaming pays where the result does not stay in the caches of the cores. */
#define STREAM_AT ((int64_t)1 << 19) /* doubles */
static inline void put(double *dst, const double *src, int64_t n, int64_t whole) {
    if (whole >= STREAM_AT) stream(dst, src, n);
    else memcpy(dst, src, n * sizeof *dst);
}
