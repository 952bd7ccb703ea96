/* The pass over windows for scores.pyx: packed weights, tiles, and the best windows of each bag.

   score_tiles.h is included once for each instruction set, with the registers of that set; the caller passes the level
   that `lapsvm_level` returns, or one below. */
#ifndef LAPSVM_SCORES_H
#define LAPSVM_SCORES_H

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)   /* unrolled checks take minutes to compile */
#define LAPSVM_INLINE static inline
#define LAPSVM_EACH
#define LAPSVM_ALL
#else
#define LAPSVM_INLINE static inline __attribute__((always_inline))
#define LAPSVM_EACH _Pragma("GCC unroll 8")
#define LAPSVM_ALL _Pragma("GCC unroll 32")
#endif

namespace lapsvm_scores {

/* What features of a type are summed in, and in how many lanes: 64 bytes. */
template <class Stored> using Real = typename std::conditional<std::is_same<Stored, double>::value, double, float>::type;
template <class Stored> constexpr int LANES = 64 / sizeof(Real<Stored>);

/* Even widths, the larger ones first, of the groups into which k weight vectors fall. */
static inline ptrdiff_t width_of(ptrdiff_t k, ptrdiff_t first, ptrdiff_t widest) {
    ptrdiff_t groups = (k + widest - 1) / widest, base = k / groups, larger = k % groups;
    return first < larger * (base + 1) ? base + 1 : base;
}

constexpr int MOST_NEAR = 16;

template <class Number> struct Kept { Number best; ptrdiff_t count, window[MOST_NEAR]; Number value[MOST_NEAR]; };

struct Near { ptrdiff_t *rows, room, count, unsettled; };   /* (bag, vector, window) in each row */

/* Keep a window above the floor: windows within the margin of the best sum are kept, in their order. */
template <class Number>
static __attribute__((noinline)) void keep(
    Kept<Number> *kept, Number *floor, Number value, Number margin, ptrdiff_t i, const char *bag, size_t row_bytes) {
    const Number infinity = INFINITY;
    if (value > kept->best) {
        ptrdiff_t left = 0;
        kept->best = value; *floor = value - margin;
        for (ptrdiff_t e = 0; e < kept->count; e++)
            if (kept->value[e] > *floor) {
                kept->value[left] = kept->value[e]; kept->window[left++] = kept->window[e];
            }
        kept->count = left;
    }
    for (ptrdiff_t e = 0; e < kept->count; e++)
        if (kept->value[e] == value
            && !memcmp(bag + kept->window[e] * row_bytes, bag + i * row_bytes, row_bytes)) return;
    if (kept->count == MOST_NEAR || !(*floor > -infinity && value < infinity)) {
        *floor = infinity; kept->count = MOST_NEAR + 1;   /* nothing else is kept */
        return;
    }
    kept->value[kept->count] = value; kept->window[kept->count++] = i;
}

/* The window that won, -1 where float32 does not tell, 0 where nothing competes. */
static inline ptrdiff_t settled(
    Near *near, ptrdiff_t bag, ptrdiff_t q, const ptrdiff_t *window, ptrdiff_t count,
    const unsigned char *excluded, ptrdiff_t size) {
    if (count == 1) return window[0];
    if (count == 0 && excluded && !memchr(excluded, 0, size)) return 0;
    if (count == 0 || count > MOST_NEAR || near->count + count > near->room) {
        near->unsettled++;
        return -1;
    }
    for (ptrdiff_t e = 0; e < count; e++, near->count++) {
        ptrdiff_t *row = near->rows + 3 * near->count;
        row[0] = bag; row[1] = q; row[2] = window[e];
    }
    return window[0];
}

/* Bags, and the weight vectors whose best windows in them are looked for, bag by bag. */
template <class Stored> struct Query {
    const Stored *x; ptrdiff_t d; const ptrdiff_t *starts, *stops; ptrdiff_t n_bags;
    const Real<Stored> *packed, *margins; ptrdiff_t k; const unsigned char *excluded;
    Kept<Real<Stored>> *kept; Real<Stored> *floors, *sums; ptrdiff_t *index;

    ptrdiff_t size(ptrdiff_t bag) const { return stops[bag] - starts[bag]; }
    void begin() {
        for (ptrdiff_t q = 0; q < k; q++) {
            kept[q].best = floors[q] = -(Real<Stored>)INFINITY;
            kept[q].count = 0;
        }
    }
    void finish(Near *near, ptrdiff_t bag) {   /* and begin the next one */
        for (ptrdiff_t q = 0; q < k; q++)
            index[q] = settled(near, bag, q, kept[q].window, kept[q].count, excluded, size(bag));
        if (excluded) excluded += size(bag);
        index += k;
        begin();
    }
};

/* Plain C: one row, one weight vector. Fused where the processor always can, else every product is rounded. */
namespace plain {
constexpr int ROWS = 1, WIDEST = 1;

LAPSVM_INLINE float widened(uint16_t bits) {   /* finite; exact, subnormal numbers included */
    uint32_t wide = (uint32_t)(bits & 0x7fff) << 13 | (uint32_t)(bits & 0x8000) << 16;
    float value;
    memcpy(&value, &wide, 4);
    return 0x1p112f * value;   /* 127 - 15 */
}
LAPSVM_INLINE float widened(int16_t bits) {   /* bfloat16 */
    uint32_t wide = (uint32_t)(uint16_t)bits << 16;
    float value;
    memcpy(&value, &wide, 4);
    return value;
}
LAPSVM_INLINE float widened(float value) { return value; }
LAPSVM_INLINE double widened(double value) { return value; }

template <class Number> struct Lanes { Number at[64 / sizeof(Number)]; };
template <class Stored> LAPSVM_INLINE Lanes<Real<Stored>> load(const Stored *x) {
    Lanes<Real<Stored>> a;
    for (int u = 0; u < LANES<Stored>; u++) a.at[u] = widened(x[u]);
    return a;
}
#if defined(__FP_FAST_FMAF) && defined(__FP_FAST_FMA)
LAPSVM_INLINE float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
LAPSVM_INLINE double fused(double a, double b, double c) { return __builtin_fma(a, b, c); }
#else
template <class Number> LAPSVM_INLINE Number fused(Number a, Number b, Number c) { return a * b + c; }
#endif
template <class Number>
LAPSVM_INLINE Lanes<Number> multiply_add(const Lanes<Number> &a, const Lanes<Number> &b, Lanes<Number> c) {
    for (int u = 0; u < LANES<Number>; u++) c.at[u] = fused(a.at[u], b.at[u], c.at[u]);
    return c;
}
template <class Number> LAPSVM_INLINE void reduce(Lanes<Number> *sums, int, Number *out) {
    Number *s = sums->at;
    for (int half = LANES<Number> / 2; half >= 4; half /= 2) for (int u = 0; u < half; u++) s[u] += s[u + half];
    out[0] = (s[0] + s[1]) + (s[2] + s[3]);
}
#include "score_tiles.h"
}  // namespace plain

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define LAPSVM_X86
#endif
}  // namespace lapsvm_scores

#ifdef LAPSVM_X86
#include <immintrin.h>
#define LAPSVM_PRAGMA(text) _Pragma(#text)
#ifdef __clang__
#define LAPSVM_FOR(isa) LAPSVM_PRAGMA(clang attribute push(__attribute__((target(isa))), apply_to = function))
#define LAPSVM_FOR_ALL _Pragma("clang attribute pop")
#else
#define LAPSVM_FOR(isa) _Pragma("GCC push_options") LAPSVM_PRAGMA(GCC target(isa))
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"   /* GCC 12's own headers of AVX-512 */
#define LAPSVM_FOR_ALL _Pragma("GCC pop_options")
#endif

/* AVX2: two registers are the lanes. The four sums of a register are added as (a + b) + (c + d). */
LAPSVM_FOR("avx2,fma,f16c")
namespace lapsvm_scores {
namespace avx2 {
constexpr int ROWS = 2, WIDEST = 3;
struct Floats { __m256 low, high; };
struct Doubles { __m256d low, high; };

LAPSVM_INLINE __m128i eight_halves(const void *x) { return _mm_loadu_si128((const __m128i *)x); }
LAPSVM_INLINE __m256 widened(__m128i bfloats) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bfloats), 16));
}
LAPSVM_INLINE Floats load(const uint16_t *x) {
    return {_mm256_cvtph_ps(eight_halves(x)), _mm256_cvtph_ps(eight_halves(x + 8))};
}
LAPSVM_INLINE Floats load(const int16_t *x) { return {widened(eight_halves(x)), widened(eight_halves(x + 8))}; }
LAPSVM_INLINE Floats load(const float *x) { return {_mm256_loadu_ps(x), _mm256_loadu_ps(x + 8)}; }
LAPSVM_INLINE Doubles load(const double *x) { return {_mm256_loadu_pd(x), _mm256_loadu_pd(x + 4)}; }
LAPSVM_INLINE Floats multiply_add(Floats a, Floats b, Floats c) {
    return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
LAPSVM_INLINE Doubles multiply_add(Doubles a, Doubles b, Doubles c) {
    return {_mm256_fmadd_pd(a.low, b.low, c.low), _mm256_fmadd_pd(a.high, b.high, c.high)};
}
LAPSVM_INLINE __m128 folded(__m256 a) { return _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1)); }
LAPSVM_INLINE double total(__m256d a) { return (a[0] + a[1]) + (a[2] + a[3]); }
LAPSVM_INLINE void store_totals(__m128 *s, int n, float *out) {   /* n <= 4; out has room for 4 */
    LAPSVM_EACH for (int i = n; i < 4; i++) s[i] = _mm_setzero_ps();
    _MM_TRANSPOSE4_PS(s[0], s[1], s[2], s[3]);
    _mm_storeu_ps(out, _mm_add_ps(_mm_add_ps(s[0], s[1]), _mm_add_ps(s[2], s[3])));
}
LAPSVM_INLINE void reduce(const Floats *sums, int n, float *out) {
    __m128 s[4];
    LAPSVM_EACH for (int i = 0; i < n; i++) s[i] = folded(_mm256_add_ps(sums[i].low, sums[i].high));
    store_totals(s, n, out);
}
LAPSVM_INLINE void reduce(const Doubles *sums, int n, double *out) {
    LAPSVM_EACH for (int i = 0; i < n; i++) out[i] = total(_mm256_add_pd(sums[i].low, sums[i].high));
}
#include "score_tiles.h"
}  // namespace avx2
}  // namespace lapsvm_scores
LAPSVM_FOR_ALL

/* AVX-512: one register */
LAPSVM_FOR("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")
namespace lapsvm_scores {
namespace avx512 {
constexpr int ROWS = 4, WIDEST = 5;

LAPSVM_INLINE __m256i sixteen_halves(const void *x) { return _mm256_loadu_si256((const __m256i *)x); }
LAPSVM_INLINE __m512 load(const uint16_t *x) { return _mm512_cvtph_ps(sixteen_halves(x)); }
LAPSVM_INLINE __m512 load(const int16_t *x) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(sixteen_halves(x)), 16));
}
LAPSVM_INLINE __m512 load(const float *x) { return _mm512_loadu_ps(x); }
LAPSVM_INLINE __m512d load(const double *x) { return _mm512_loadu_pd(x); }
LAPSVM_INLINE __m512 multiply_add(__m512 a, __m512 b, __m512 c) { return _mm512_fmadd_ps(a, b, c); }
LAPSVM_INLINE __m512d multiply_add(__m512d a, __m512d b, __m512d c) { return _mm512_fmadd_pd(a, b, c); }
LAPSVM_INLINE void reduce(const __m512 *sums, int n, float *out) {
    __m128 s[4];
    LAPSVM_EACH for (int i = 0; i < n; i++)
        s[i] = avx2::folded(_mm256_add_ps(_mm512_castps512_ps256(sums[i]), _mm512_extractf32x8_ps(sums[i], 1)));
    avx2::store_totals(s, n, out);
}
LAPSVM_INLINE void reduce(const __m512d *sums, int n, double *out) {
    LAPSVM_EACH for (int i = 0; i < n; i++)
        out[i] = avx2::total(_mm256_add_pd(_mm512_castpd512_pd256(sums[i]), _mm512_extractf64x4_pd(sums[i], 1)));
}
#include "score_tiles.h"
}  // namespace avx512
}  // namespace lapsvm_scores
LAPSVM_FOR_ALL

#if defined(__linux__) && __has_include(<amxbf16intrin.h>)
#define LAPSVM_AMX
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
LAPSVM_FOR("amx-tile,amx-bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")
namespace lapsvm_scores {
#include "score_amx.h"
}  // namespace lapsvm_scores
LAPSVM_FOR_ALL

/* Whether the processor has AMX and the system lets this process use its registers. */
static bool lapsvm_has_amx() {
    unsigned a, b, c, d;
    const unsigned tiles = 1u << 24, bfloats = 1u << 22;
    const long ask_for_registers = 0x1023, tile_data = 18;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & tiles) && (d & bfloats)
        && !syscall(SYS_arch_prctl, ask_for_registers, tile_data);
}
#endif
#endif

/* 5 for AMX, 4 for AVX-512, 3 for AVX2 (all of these processors know F16C), 1 for plain C. */
static int lapsvm_level() {
#ifdef LAPSVM_X86
    if (!(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))) return 1;
    if (!(__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
          && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))) return 3;
#ifdef LAPSVM_AMX
    if (lapsvm_has_amx()) return 5;
#endif
    return 4;
#else
    return 1;
#endif
}

/* Weights (d, k) as the tiles read them: each group of vectors lane by lane, padded with zeros. */
template <class Number>
static void lapsvm_pack(const Number *w, ptrdiff_t d, ptrdiff_t k, ptrdiff_t widest, Number *out) {
    const ptrdiff_t lanes = lapsvm_scores::LANES<Number>;
    for (ptrdiff_t q = 0, width; q < k; q += width) {
        width = lapsvm_scores::width_of(k, q, widest);
        for (ptrdiff_t j = 0; j < d; j += lanes)
            for (ptrdiff_t v = 0; v < width; v++)
                for (ptrdiff_t u = 0; u < lanes; u++) *out++ = j + u < d ? w[(j + u) * k + q + v] : 0;
    }
}

/* Returns how many near ties were written into `rows` (room, 3); `kept` has room for k of Kept<double>, `floors` for k
   and `sums` for 32 k numbers, k rounded up to 16. Cython before 3.3 calls it with a type that is const. */
template <class Given>
static ptrdiff_t lapsvm_pass(
    int level, const Given *x, ptrdiff_t d, const ptrdiff_t *starts, const ptrdiff_t *stops, ptrdiff_t n,
    const void *packed, const void *margins, ptrdiff_t k, const unsigned char *excluded, void *kept, void *floors,
    void *sums, ptrdiff_t *rows, ptrdiff_t room, ptrdiff_t *index, ptrdiff_t *unsettled) {
    using namespace lapsvm_scores;
    typedef typename std::remove_const<Given>::type Stored;
    typedef Real<Stored> Number;
    Near near = {rows, room, 0, 0};
    Query<Stored> query = {x, d, starts, stops, n, (const Number *)packed, (const Number *)margins, k, excluded,
                           (Kept<Number> *)kept, (Number *)floors, (Number *)sums, index};
    (void)level;
#ifdef LAPSVM_X86
#ifdef LAPSVM_AMX
    if constexpr (sizeof(Stored) == 2)
        if (level == 5) {
            amx::best_of(query, &near);
            *unsettled = near.unsettled;
            return near.count;
        }
#endif
    if (level == 4) avx512::best_of(query, &near);
    else if (level == 3) avx2::best_of(query, &near);
    else
#endif
        plain::best_of(query, &near);
    *unsettled = near.unsettled;
    return near.count;
}

#endif
