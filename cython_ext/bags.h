/* Dot products, norms and sums of stored rows in float64 lanes, for bags.pyx.

   Halves are widened exactly, subnormal numbers included: by integer steps, or by the processor's instruction. */
#ifndef LAPSVM_BAGS_H
#define LAPSVM_BAGS_H

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "compiler.h"
#include "widening.h"

#ifdef LAPSVM_X86
#include <immintrin.h>
#endif

#define LAPSVM_LANES 32

template <class Stored>
LAPSVM_INLINE double lapsvm_dot_of(const Stored *x, const double *w, ptrdiff_t d) {
    double lanes[LAPSVM_LANES] = {0}, total = 0;
    ptrdiff_t j = 0;
    for (; j + LAPSVM_LANES <= d; j += LAPSVM_LANES)
        for (int u = 0; u < LAPSVM_LANES; u++) lanes[u] += lapsvm_widened(x[j + u]) * w[j + u];
    for (int u = 0; u < LAPSVM_LANES; u++) total += lanes[u];
    for (; j < d; j++) total += lapsvm_widened(x[j]) * w[j];
    return total;
}

template <class Stored>
LAPSVM_INLINE double lapsvm_scaled_squares(const Stored *x, const double *scale, ptrdiff_t d) {
    double lanes[LAPSVM_LANES] = {0}, total = 0;
    for (ptrdiff_t j = 0; j < d; j += LAPSVM_LANES)
        for (ptrdiff_t u = 0; u < (d - j < LAPSVM_LANES ? d - j : LAPSVM_LANES); u++) {
            double value = lapsvm_widened(x[j + u]) * scale[j + u];
            lanes[u] += value * value;
        }
    for (int u = 0; u < LAPSVM_LANES; u++) total += lanes[u];
    return total;
}

template <class Sum, class Stored>
LAPSVM_INLINE double lapsvm_squares(const Stored *x, ptrdiff_t d) {
    Sum lanes[LAPSVM_LANES] = {0};
    double total = 0;
    ptrdiff_t j = 0;
    for (; j + LAPSVM_LANES <= d; j += LAPSVM_LANES)
        for (int u = 0; u < LAPSVM_LANES; u++) {
            Sum value = lapsvm_widened(x[j + u]);
            lanes[u] += value * value;
        }
    for (int u = 0; u < LAPSVM_LANES; u++) total += lanes[u];
    for (; j < d; j++) {
        double value = lapsvm_widened(x[j]);
        total += value * value;
    }
    return total;
}

/* The largest of the exponent bits of float16, bfloat16, float and double: those of NaN and infinity. */
template <class Bits, class Stored>
LAPSVM_INLINE int lapsvm_has_mask(const Stored *x, ptrdiff_t n, Bits mask) {
    Bits found = 0;
    for (ptrdiff_t j = 0; j < n; j++) {
        Bits bits;
        memcpy(&bits, &x[j], sizeof bits);
        found |= (Bits)((bits & mask) == mask);
    }
    return found != 0;
}

/* What bags.pyx calls, for one type of features whose exponent has the bits `mask`. Squares are summed in float32
   lanes; again in float64 where float32 overflows or is too coarse near 0. */
#define LAPSVM_STORED(Stored, Bits, mask) \
    LAPSVM_CLONES static double lapsvm_norm2(const Stored *x, const double *scale, ptrdiff_t d) { \
        return lapsvm_scaled_squares(x, scale, d); \
    } \
    LAPSVM_CLONES static double lapsvm_length2(const Stored *x, ptrdiff_t d) { \
        typedef decltype(lapsvm_widened(*x)) Sum; \
        double found = lapsvm_squares<Sum>(x, d); \
        return std::is_same<Sum, double>::value || (1e-20 < found && found < INFINITY) \
            ? found : lapsvm_squares<double>(x, d); \
    } \
    LAPSVM_CLONES static void lapsvm_add(const Stored *x, double c, double *out, ptrdiff_t d) { \
        for (ptrdiff_t j = 0; j < d; j++) out[j] += c * lapsvm_widened(x[j]); \
    } \
    LAPSVM_CLONES static int lapsvm_broken(const Stored *x, ptrdiff_t n) { \
        return lapsvm_has_mask<Bits>(x, n, mask); \
    }
LAPSVM_STORED(uint16_t, uint16_t, 0x7c00u)
LAPSVM_STORED(int16_t, uint16_t, 0x7f80u)
LAPSVM_STORED(float, uint32_t, 0x7f800000u)
LAPSVM_STORED(double, uint64_t, 0x7ff0000000000000ull)

#define LAPSVM_DOT(Stored) \
    LAPSVM_CLONES static double lapsvm_dot64(const Stored *x, const double *w, ptrdiff_t d) { \
        return lapsvm_dot_of(x, w, d); \
    }
LAPSVM_DOT(int16_t)
LAPSVM_DOT(float)
LAPSVM_DOT(double)

/* Halves have an instruction of their own, which compilers do not find. The same bits: every product is rounded before
   it is added to its lane. */
static double lapsvm_dot_plain(const uint16_t *x, const double *w, ptrdiff_t d) { return lapsvm_dot_of(x, w, d); }
#ifdef LAPSVM_X86
LAPSVM_INLINE double lapsvm_with_rest(double *lanes, const uint16_t *x, const double *w, ptrdiff_t j, ptrdiff_t d) {
    double total = 0;
    for (int u = 0; u < LAPSVM_LANES; u++) total += lanes[u];
    for (; j < d; j++) total += lapsvm_widened(x[j]) * w[j];
    return total;
}
__attribute__((target("avx,f16c")))
static double lapsvm_dot_avx(const uint16_t *x, const double *w, ptrdiff_t d) {
    double lanes[LAPSVM_LANES];
    __m256d sums[LAPSVM_LANES / 4];
    ptrdiff_t j = 0;
    for (int i = 0; i < LAPSVM_LANES / 4; i++) sums[i] = _mm256_setzero_pd();
    for (; j + LAPSVM_LANES <= d; j += LAPSVM_LANES)
        LAPSVM_UNROLL_8 for (int i = 0; i < LAPSVM_LANES / 4; i++) {
            __m256d wide = _mm256_cvtps_pd(_mm_cvtph_ps(_mm_loadl_epi64((const __m128i *)(x + j + 4 * i))));
            sums[i] = _mm256_add_pd(sums[i], _mm256_mul_pd(wide, _mm256_loadu_pd(w + j + 4 * i)));
        }
    for (int i = 0; i < LAPSVM_LANES / 4; i++) _mm256_storeu_pd(lanes + 4 * i, sums[i]);
    return lapsvm_with_rest(lanes, x, w, j, d);
}
__attribute__((target("avx512f,f16c")))
static double lapsvm_dot_avx512(const uint16_t *x, const double *w, ptrdiff_t d) {
    double lanes[LAPSVM_LANES];
    __m512d sums[LAPSVM_LANES / 8];
    ptrdiff_t j = 0;
    for (int i = 0; i < LAPSVM_LANES / 8; i++) sums[i] = _mm512_setzero_pd();
    for (; j + LAPSVM_LANES <= d; j += LAPSVM_LANES)
        LAPSVM_UNROLL_8 for (int i = 0; i < LAPSVM_LANES / 8; i++) {
            __m512d wide = _mm512_cvtps_pd(_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(x + j + 8 * i))));
            sums[i] = _mm512_add_pd(sums[i], _mm512_mul_pd(wide, _mm512_loadu_pd(w + j + 8 * i)));
        }
    for (int i = 0; i < LAPSVM_LANES / 8; i++) _mm512_storeu_pd(lanes + 8 * i, sums[i]);
    return lapsvm_with_rest(lanes, x, w, j, d);
}
#endif

/* The levels of scores.h: 4 for AVX-512, 3 for AVX, 1 for plain C. */
typedef double (*lapsvm_half_dot)(const uint16_t *, const double *, ptrdiff_t);
static lapsvm_half_dot lapsvm_dot_at(int level) {
#ifdef LAPSVM_X86
    if (level >= 4 && __builtin_cpu_supports("avx512f")) return lapsvm_dot_avx512;
    if (level >= 3 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return lapsvm_dot_avx;
#endif
    (void)level;
    return lapsvm_dot_plain;
}
static const lapsvm_half_dot lapsvm_best_dot = lapsvm_dot_at(4);
static inline double lapsvm_dot64(const uint16_t *x, const double *w, ptrdiff_t d) { return lapsvm_best_dot(x, w, d); }

static inline void lapsvm_prefetch(const void *row, size_t bytes) {
    for (size_t at = 0; at < bytes; at += 64) __builtin_prefetch((const char *)row + at);
}

#endif
