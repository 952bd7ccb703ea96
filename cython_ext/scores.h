/* The pass over windows for scores.pyx: packed weights, tiles, and the best windows of each bag.

   Every tile exists for plain C, AVX2 and AVX-512; the caller passes the level that `lapsvm_level` returns. */
#ifndef LAPSVM_SCORES_H
#define LAPSVM_SCORES_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)   /* unrolled checks take minutes to compile */
#define LAPSVM_INLINE static inline
#define LAPSVM_EACH
#define LAPSVM_ALL
#else
#define LAPSVM_INLINE static inline __attribute__((always_inline))
#define LAPSVM_EACH _Pragma("GCC unroll 8")
#define LAPSVM_ALL _Pragma("GCC unroll 32")
#endif

LAPSVM_INLINE float lapsvm_half(uint16_t bits) {   /* finite; exact, subnormal numbers included */
    uint32_t wide = (uint32_t)(bits & 0x7fff) << 13 | (uint32_t)(bits & 0x8000) << 16; float value;
    memcpy(&value, &wide, 4);
    return 0x1p112f * value;   /* 127 - 15 */
}
LAPSVM_INLINE float lapsvm_bfloat(int16_t bits) {
    uint32_t wide = (uint32_t)(uint16_t)bits << 16; float value;
    memcpy(&value, &wide, 4);
    return value;
}
#define LAPSVM_SAME(value) (value)

/* Even widths, the larger ones first, of the groups into which k weight vectors fall. */
static ptrdiff_t lapsvm_width(ptrdiff_t k, ptrdiff_t first, ptrdiff_t widest) {
    ptrdiff_t groups = (k + widest - 1) / widest, base = k / groups, larger = k % groups;
    return first < larger * (base + 1) ? base + 1 : base;
}

#define LAPSVM_PACK(name, real, lanes) \
    static void name(const real *w, ptrdiff_t d, ptrdiff_t k, ptrdiff_t widest, real *out) { \
        for (ptrdiff_t q = 0, width; q < k; q += width) { \
            width = lapsvm_width(k, q, widest); \
            for (ptrdiff_t j = 0; j < d; j += lanes) \
                for (ptrdiff_t v = 0; v < width; v++) \
                    for (ptrdiff_t u = 0; u < lanes; u++) \
                        *out++ = j + u < d ? w[(j + u) * k + q + v] : 0; \
        } \
    }
LAPSVM_PACK(lapsvm_pack_float, float, 16)
LAPSVM_PACK(lapsvm_pack_double, double, 8)

/* One tile: r rows times v weight vectors; out[4 * vector + row]. */
#define LAPSVM_TILE(name, target, stored, real, vec, lanes, rows, widest, LOAD, LOADW, FMA, ZERO, REDUCE) \
    target LAPSVM_INLINE void name##_step( \
        const stored *x, ptrdiff_t stride, const real *w, const int r_, const int v_, vec *sums) { \
        vec wide[rows]; \
        LAPSVM_EACH for (int r = 0; r < r_; r++) wide[r] = LOAD(x + r * stride); \
        LAPSVM_EACH for (int v = 0; v < v_; v++) { \
            vec weight = LOADW(w + lanes * v); \
            LAPSVM_EACH for (int r = 0; r < r_; r++) sums[v * r_ + r] = FMA(wide[r], weight, sums[v * r_ + r]); \
        } \
    } \
    target LAPSVM_INLINE void name##_tile( \
        const stored *x, ptrdiff_t d, const real *w, const int r_, const int v_, real *out) { \
        vec sums[rows * widest]; \
        ptrdiff_t j = 0; \
        LAPSVM_ALL for (int i = 0; i < r_ * v_; i++) sums[i] = ZERO(); \
        for (; j + lanes <= d; j += lanes, w += lanes * v_) { \
            LAPSVM_EACH for (int r = 0; r < r_; r++) \
                if (r_ > 1) __builtin_prefetch(x + (d + j) * r_ + r * lanes); \
            name##_step(x + j, d, w, r_, v_, sums); \
        } \
        if (j < d) { \
            stored tail[rows * lanes] = {0}; \
            for (int r = 0; r < r_; r++) memcpy(tail + r * lanes, x + r * d + j, (d - j) * sizeof(stored)); \
            name##_step(tail, lanes, w, r_, v_, sums); \
        } \
        LAPSVM_EACH for (int v = 0; v < v_; v++) REDUCE(sums + v * r_, r_, out + 4 * v); \
    }

/* Bags, tile by tile; windows within the margin of the best sum are kept, in their order. */
#define LAPSVM_NEAR 16
#define LAPSVM_KEPT(real) \
    typedef struct { \
        real best; ptrdiff_t count, window[LAPSVM_NEAR]; real value[LAPSVM_NEAR]; \
    } lapsvm_kept_##real; \
    static __attribute__((noinline)) void lapsvm_keep_##real( \
        lapsvm_kept_##real *kept, real *floor, real value, real margin, ptrdiff_t i, const char *bag, \
        size_t row_bytes) { \
        if (value > kept->best) { \
            ptrdiff_t left = 0; \
            kept->best = value; *floor = value - margin; \
            for (ptrdiff_t e = 0; e < kept->count; e++) \
                if (kept->value[e] > *floor) { \
                    kept->value[left] = kept->value[e]; kept->window[left++] = kept->window[e]; \
                } \
            kept->count = left; \
        } \
        for (ptrdiff_t e = 0; e < kept->count; e++) \
            if (kept->value[e] == value \
                && !memcmp(bag + kept->window[e] * row_bytes, bag + i * row_bytes, row_bytes)) return; \
        if (kept->count == LAPSVM_NEAR || !(*floor > -(real)INFINITY && value < (real)INFINITY)) { \
            *floor = (real)INFINITY; kept->count = LAPSVM_NEAR + 1;   /* nothing else is kept */ \
            return; \
        } \
        kept->value[kept->count] = value; kept->window[kept->count++] = i; \
    }
LAPSVM_KEPT(float)
LAPSVM_KEPT(double)

typedef struct { ptrdiff_t *rows, room, count, unsettled; } lapsvm_near;   /* (bag, vector, window) in each row */

/* The window that won, -1 where float32 does not tell, 0 where nothing competes. */
static ptrdiff_t lapsvm_settled(
    lapsvm_near *near, ptrdiff_t bag, ptrdiff_t q, const ptrdiff_t *window, ptrdiff_t count,
    const unsigned char *excluded, ptrdiff_t size) {
    if (count == 1) return window[0];
    if (count == 0 && excluded && !memchr(excluded, 0, size)) return 0;
    if (count == 0 || count > LAPSVM_NEAR || near->count + count > near->room) {
        near->unsettled++;
        return -1;
    }
    for (ptrdiff_t e = 0; e < count; e++, near->count++) {
        ptrdiff_t *row = near->rows + 3 * near->count;
        row[0] = bag; row[1] = q; row[2] = window[e];
    }
    return window[0];
}

#define LAPSVM_BAGS(name, target, stored, real, lanes, rows, widest) \
    target static void name( \
        const stored *x, ptrdiff_t d, const ptrdiff_t *starts, const ptrdiff_t *stops, ptrdiff_t n_bags, \
        const real *packed, const real *margins, ptrdiff_t k, const unsigned char *excluded, \
        lapsvm_kept_##real *kept, real *floors, lapsvm_near *near, ptrdiff_t *index) { \
        ptrdiff_t step = (d + lanes - 1) / lanes * lanes; \
        for (ptrdiff_t bag = 0; bag < n_bags; bag++, index += k) { \
            ptrdiff_t size = stops[bag] - starts[bag]; \
            const stored *first = x + starts[bag] * d; \
            for (ptrdiff_t q = 0; q < k; q++) { \
                kept[q].best = floors[q] = -(real)INFINITY; kept[q].count = 0; \
            } \
            for (ptrdiff_t i = 0, r_; i < size; i += r_) { \
                const stored *row = first + i * d; \
                r_ = k > 1 && i + rows <= size ? rows : 1; \
                for (ptrdiff_t q = 0, v_; q < k; q += v_) { \
                    real out[4 * widest]; \
                    const real *w = packed + q * step; \
                    v_ = lapsvm_width(k, q, widest); \
                    switch (16 * (r_ == rows && rows > 1) + v_) { LAPSVM_CASES_##widest(name, rows) } \
                    int some = 0; \
                    for (ptrdiff_t v = 0; v < v_; v++) \
                        for (ptrdiff_t r = 0; r < r_; r++) some |= out[4 * v + r] > floors[q + v]; \
                    for (ptrdiff_t v = 0; some && v < v_; v++) \
                        for (ptrdiff_t r = 0; r < r_; r++) \
                            if (out[4 * v + r] > floors[q + v] && !(excluded && excluded[i + r])) \
                                lapsvm_keep_##real(kept + q + v, floors + q + v, out[4 * v + r], margins[q + v], \
                                                   i + r, (const char *)first, d * sizeof(stored)); \
                } \
            } \
            for (ptrdiff_t q = 0; q < k; q++) \
                index[q] = lapsvm_settled(near, bag, q, kept[q].window, kept[q].count, excluded, size); \
            if (excluded) excluded += size; \
        } \
    }
#define LAPSVM_PASS(name, target, stored, real, vec, lanes, rows, widest, LOAD, LOADW, FMA, ZERO, REDUCE) \
    LAPSVM_TILE(name, target, stored, real, vec, lanes, rows, widest, LOAD, LOADW, FMA, ZERO, REDUCE) \
    LAPSVM_BAGS(name, target, stored, real, lanes, rows, widest)
#define LAPSVM_CASE(name, rows, v) \
    case v: name##_tile(row, d, w, 1, v, out); break; \
    case 16 + v: name##_tile(row, d, w, rows, v, out); break;
#define LAPSVM_CASES_1(name, rows) case 1: name##_tile(row, d, w, 1, 1, out); break;
#define LAPSVM_CASES_3(name, rows) LAPSVM_CASE(name, rows, 1) LAPSVM_CASE(name, rows, 2) LAPSVM_CASE(name, rows, 3)
#define LAPSVM_CASES_5(name, rows) \
    LAPSVM_CASES_3(name, rows) LAPSVM_CASE(name, rows, 4) LAPSVM_CASE(name, rows, 5)

/* plain C: one row, one weight vector */
#if defined(__FP_FAST_FMAF) && defined(__FP_FAST_FMA)
#define LAPSVM_FMAF(a, b, c) __builtin_fmaf(a, b, c)
#define LAPSVM_FMA(a, b, c) __builtin_fma(a, b, c)
#else
#define LAPSVM_FMAF(a, b, c) ((a) * (b) + (c))
#define LAPSVM_FMA LAPSVM_FMAF
#endif
#define LAPSVM_PLAIN(name, stored, real, lanes, WIDEN, FUSED) \
    static void name##_tile(const stored *x, ptrdiff_t d, const real *w, int r_, int v_, real *out) { \
        real s[lanes] = {0}; \
        ptrdiff_t j = 0; \
        (void)r_; (void)v_; \
        for (; j + lanes <= d; j += lanes) \
            for (int u = 0; u < lanes; u++) s[u] = FUSED(WIDEN(x[j + u]), w[j + u], s[u]); \
        for (int u = 0; j + u < d; u++) s[u] = FUSED(WIDEN(x[j + u]), w[j + u], s[u]); \
        for (int half = lanes / 2; half >= 4; half /= 2) for (int u = 0; u < half; u++) s[u] += s[u + half]; \
        out[0] = (s[0] + s[1]) + (s[2] + s[3]); \
    } \
    LAPSVM_BAGS(name, , stored, real, lanes, 1, 1)
LAPSVM_PLAIN(lapsvm_pass_half, uint16_t, float, 16, lapsvm_half, LAPSVM_FMAF)
LAPSVM_PLAIN(lapsvm_pass_bfloat, int16_t, float, 16, lapsvm_bfloat, LAPSVM_FMAF)
LAPSVM_PLAIN(lapsvm_pass_float, float, float, 16, LAPSVM_SAME, LAPSVM_FMAF)
LAPSVM_PLAIN(lapsvm_pass_double, double, double, 8, LAPSVM_SAME, LAPSVM_FMA)

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#include <immintrin.h>
#define LAPSVM_V3 __attribute__((target("avx2,fma,f16c")))
#define LAPSVM_V4 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")))
#define LAPSVM_HALVES(x) ((const __m128i *)(x))

/* four float lanes of each of n <= 4 sums -> n sums, (a + b) + (c + d) */
LAPSVM_V3 LAPSVM_INLINE void lapsvm_fours(__m128 *s, int n, float *out) {
    LAPSVM_EACH for (int i = n; i < 4; i++) s[i] = _mm_setzero_ps();
    _MM_TRANSPOSE4_PS(s[0], s[1], s[2], s[3]);
    _mm_storeu_ps(out, _mm_add_ps(_mm_add_ps(s[0], s[1]), _mm_add_ps(s[2], s[3])));
}
LAPSVM_V3 LAPSVM_INLINE __m128 lapsvm_eight(__m256 a) {
    return _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
}
LAPSVM_V3 LAPSVM_INLINE double lapsvm_four(__m256d a) { return (a[0] + a[1]) + (a[2] + a[3]); }

/* AVX2: two registers are the 16 lanes */
typedef struct { __m256 low, high; } lapsvm_pair;
typedef struct { __m256d low, high; } lapsvm_pair64;
#define LAPSVM_PAIRED(name, stored, pair, LOW, HIGH) \
    LAPSVM_V3 LAPSVM_INLINE pair name(const stored *x) { pair a = {LOW, HIGH}; return a; }
#define LAPSVM_WIDE_HALF(x) _mm256_cvtph_ps(_mm_loadu_si128(LAPSVM_HALVES(x)))
#define LAPSVM_WIDE_BFLOAT(x) _mm256_castsi256_ps( \
    _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(LAPSVM_HALVES(x))), 16))
LAPSVM_PAIRED(lapsvm_pair_half, uint16_t, lapsvm_pair, LAPSVM_WIDE_HALF(x), LAPSVM_WIDE_HALF(x + 8))
LAPSVM_PAIRED(lapsvm_pair_bfloat, int16_t, lapsvm_pair, LAPSVM_WIDE_BFLOAT(x), LAPSVM_WIDE_BFLOAT(x + 8))
LAPSVM_PAIRED(lapsvm_pair_float, float, lapsvm_pair, _mm256_loadu_ps(x), _mm256_loadu_ps(x + 8))
LAPSVM_PAIRED(lapsvm_pair_double, double, lapsvm_pair64, _mm256_loadu_pd(x), _mm256_loadu_pd(x + 4))
LAPSVM_V3 LAPSVM_INLINE lapsvm_pair lapsvm_pair_fma(lapsvm_pair a, lapsvm_pair b, lapsvm_pair c) {
    return (lapsvm_pair){_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
LAPSVM_V3 LAPSVM_INLINE lapsvm_pair64 lapsvm_pair64_fma(lapsvm_pair64 a, lapsvm_pair64 b, lapsvm_pair64 c) {
    return (lapsvm_pair64){_mm256_fmadd_pd(a.low, b.low, c.low), _mm256_fmadd_pd(a.high, b.high, c.high)};
}
LAPSVM_V3 LAPSVM_INLINE lapsvm_pair lapsvm_pair_zero(void) {
    return (lapsvm_pair){_mm256_setzero_ps(), _mm256_setzero_ps()};
}
LAPSVM_V3 LAPSVM_INLINE lapsvm_pair64 lapsvm_pair64_zero(void) {
    return (lapsvm_pair64){_mm256_setzero_pd(), _mm256_setzero_pd()};
}
LAPSVM_V3 LAPSVM_INLINE void lapsvm_pair_reduce(const lapsvm_pair *sums, int n, float *out) {
    __m128 s[4];
    LAPSVM_EACH for (int i = 0; i < n; i++) s[i] = lapsvm_eight(_mm256_add_ps(sums[i].low, sums[i].high));
    lapsvm_fours(s, n, out);
}
LAPSVM_V3 LAPSVM_INLINE void lapsvm_pair64_reduce(const lapsvm_pair64 *sums, int n, double *out) {
    LAPSVM_EACH for (int i = 0; i < n; i++) out[i] = lapsvm_four(_mm256_add_pd(sums[i].low, sums[i].high));
}
#define LAPSVM_PASS3(name, stored, real, vec, lanes, load, loadw, kind) \
    LAPSVM_PASS(name##_v3, LAPSVM_V3, stored, real, vec, lanes, 2, 3, load, loadw, \
                kind##_fma, kind##_zero, kind##_reduce)
LAPSVM_PASS3(lapsvm_pass_half, uint16_t, float, lapsvm_pair, 16, lapsvm_pair_half, lapsvm_pair_float, lapsvm_pair)
LAPSVM_PASS3(
    lapsvm_pass_bfloat, int16_t, float, lapsvm_pair, 16, lapsvm_pair_bfloat, lapsvm_pair_float, lapsvm_pair)
LAPSVM_PASS3(lapsvm_pass_float, float, float, lapsvm_pair, 16, lapsvm_pair_float, lapsvm_pair_float, lapsvm_pair)
LAPSVM_PASS3(
    lapsvm_pass_double, double, double, lapsvm_pair64, 8, lapsvm_pair_double, lapsvm_pair_double, lapsvm_pair64)

/* AVX-512: one register */
#define LAPSVM_LONG_HALF(x) _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(x)))
#define LAPSVM_LONG_BFLOAT(x) _mm512_castsi512_ps( \
    _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(x))), 16))
LAPSVM_V4 LAPSVM_INLINE void lapsvm_long_reduce(const __m512 *sums, int n, float *out) {
    __m128 s[4];
    LAPSVM_EACH for (int i = 0; i < n; i++)
        s[i] = lapsvm_eight(_mm256_add_ps(_mm512_castps512_ps256(sums[i]), _mm512_extractf32x8_ps(sums[i], 1)));
    lapsvm_fours(s, n, out);
}
LAPSVM_V4 LAPSVM_INLINE void lapsvm_long64_reduce(const __m512d *sums, int n, double *out) {
    LAPSVM_EACH for (int i = 0; i < n; i++)
        out[i] = lapsvm_four(_mm256_add_pd(_mm512_castpd512_pd256(sums[i]), _mm512_extractf64x4_pd(sums[i], 1)));
}
#define LAPSVM_PASS4(name, stored, real, vec, lanes, load, loadw, fma, zero, reduce) \
    LAPSVM_PASS(name##_v4, LAPSVM_V4, stored, real, vec, lanes, 4, 5, load, loadw, fma, zero, reduce)
#define LAPSVM_LONG(name, stored, load) \
    LAPSVM_PASS4(name, stored, float, __m512, 16, load, _mm512_loadu_ps, \
                 _mm512_fmadd_ps, _mm512_setzero_ps, lapsvm_long_reduce)
LAPSVM_LONG(lapsvm_pass_half, uint16_t, LAPSVM_LONG_HALF)
LAPSVM_LONG(lapsvm_pass_bfloat, int16_t, LAPSVM_LONG_BFLOAT)
LAPSVM_LONG(lapsvm_pass_float, float, _mm512_loadu_ps)
LAPSVM_PASS4(lapsvm_pass_double, double, double, __m512d, 8, _mm512_loadu_pd, _mm512_loadu_pd, \
             _mm512_fmadd_pd, _mm512_setzero_pd, lapsvm_long64_reduce)

static int lapsvm_level(void) {
    if (!(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))) return 1;   /* all of these know F16C */
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
        && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") ? 4 : 3;
}
#define LAPSVM_AT(name) (level == 4 ? name##_v4 : level == 3 ? name##_v3 : name)
#else
static int lapsvm_level(void) { return 1; }
#define LAPSVM_AT(name) name
#endif
#define LAPSVM_ANSWER(name) \
    LAPSVM_AT(name)(x, d, starts, stops, n, packed, margins, k, excluded, kept, floors, &near, index); break;
static ptrdiff_t lapsvm_pass(
    int level, char kind, const void *x, ptrdiff_t d, const ptrdiff_t *starts, const ptrdiff_t *stops, ptrdiff_t n,
    const void *packed, const void *margins, ptrdiff_t k, const unsigned char *excluded, void *kept,
    void *floors, ptrdiff_t *rows, ptrdiff_t room, ptrdiff_t *index, ptrdiff_t *unsettled) {
    lapsvm_near near = {rows, room, 0, 0};
    (void)level;
    switch (kind) {
        case 'h': LAPSVM_ANSWER(lapsvm_pass_half)
        case 'b': LAPSVM_ANSWER(lapsvm_pass_bfloat)
        case 'f': LAPSVM_ANSWER(lapsvm_pass_float)
        default: LAPSVM_ANSWER(lapsvm_pass_double)
    }
    *unsettled = near.unsettled;
    return near.count;
}

#endif
