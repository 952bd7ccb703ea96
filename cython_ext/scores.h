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

#include "compiler.h"
#include "widening.h"

#ifdef LAPSVM_X86
#include <immintrin.h>
#endif

namespace lapsvm_scores {

/* What features of a type are summed in, and in how many lanes: 64 bytes. */
template <class Stored>
using Real = typename std::conditional<std::is_same<Stored, double>::value, double, float>::type;
template <class Stored> constexpr int LANES = 64 / sizeof(Real<Stored>);

/* Even widths, the larger ones first, of the groups into which k weight vectors fall. */
static inline ptrdiff_t width_of(ptrdiff_t k, ptrdiff_t first, ptrdiff_t widest) {
    ptrdiff_t groups = (k + widest - 1) / widest, base = k / groups, larger = k % groups;
    return first < larger * (base + 1) ? base + 1 : base;
}

constexpr int MOST_KEPT = 16;

/* The windows of a bag that may be the best one for a weight vector. */
template <class Number> struct Kept { Number best; ptrdiff_t count, window[MOST_KEPT]; Number value[MOST_KEPT]; };

/* What float32 does not decide: `count` rows (bag, vector, window), and how many bags and vectors have too many. */
struct NearTies { ptrdiff_t *rows, capacity, count, undecided; };

/* Bags, weight vectors, memory for the work, and the answers. Numbers behind `void` are of float64 if the features
   are, else of float32. */
struct Request {
    ptrdiff_t d, n_bags; const ptrdiff_t *starts, *stops;   /* bag i holds the rows starts[i] to stops[i] - 1 */
    ptrdiff_t k; const void *packed, *margins;              /* weight vectors by `lapsvm_pack`, and (k,) */
    const unsigned char *excluded;                          /* NULL, or 1 for each row of a bag that does not compete */
    void *kept, *floors, *sums;   /* capacity: k of Kept<double>, k and 32 k numbers, k rounded up to 16 */
    ptrdiff_t *index;             /* (n_bags, k) best windows */
    NearTies ties;
};

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
    if (kept->count == MOST_KEPT || !(*floor > -infinity && value < infinity)) {
        *floor = infinity; kept->count = MOST_KEPT + 1;   /* nothing else is kept */
        return;
    }
    kept->value[kept->count] = value; kept->window[kept->count++] = i;
}

/* The best window, -1 where float32 does not decide, 0 where no window competes. */
static inline ptrdiff_t best_window(
    NearTies *ties, ptrdiff_t bag, ptrdiff_t q, const ptrdiff_t *window, ptrdiff_t count,
    const unsigned char *excluded, ptrdiff_t size) {
    if (count == 1) return window[0];
    if (count == 0 && excluded && !memchr(excluded, 0, size)) return 0;
    if (count == 0 || count > MOST_KEPT || ties->count + count > ties->capacity) {
        ties->undecided++;
        return -1;
    }
    for (ptrdiff_t e = 0; e < count; e++, ties->count++) {
        ptrdiff_t *row = ties->rows + 3 * ties->count;
        row[0] = bag; row[1] = q; row[2] = window[e];
    }
    return window[0];
}

/* A request with the types of the features, which is answered bag by bag. */
template <class Stored> struct Query {
    const Stored *x; ptrdiff_t d, n_bags; const ptrdiff_t *starts, *stops;
    ptrdiff_t k; const Real<Stored> *packed, *margins; const unsigned char *excluded;
    Kept<Real<Stored>> *kept; Real<Stored> *floors, *sums; ptrdiff_t *index; NearTies *ties;

    Query(const Stored *features, Request *of)
        : x(features), d(of->d), n_bags(of->n_bags), starts(of->starts), stops(of->stops), k(of->k),
          packed((const Real<Stored> *)of->packed), margins((const Real<Stored> *)of->margins), excluded(of->excluded),
          kept((Kept<Real<Stored>> *)of->kept), floors((Real<Stored> *)of->floors), sums((Real<Stored> *)of->sums),
          index(of->index), ties(&of->ties) {}

    ptrdiff_t size(ptrdiff_t bag) const { return stops[bag] - starts[bag]; }
    void begin() {
        for (ptrdiff_t q = 0; q < k; q++) {
            kept[q].best = floors[q] = -(Real<Stored>)INFINITY;
            kept[q].count = 0;
        }
    }
    void finish(ptrdiff_t bag) {   /* and begin the next one */
        for (ptrdiff_t q = 0; q < k; q++)
            index[q] = best_window(ties, bag, q, kept[q].window, kept[q].count, excluded, size(bag));
        if (excluded) excluded += size(bag);
        index += k;
        begin();
    }
};

/* Plain C: one row, one weight vector. Fused where the processor always can, else every product is rounded. */
namespace plain {
constexpr int ROWS = 1, WIDEST = 1;

template <class Number> struct Lanes { Number at[64 / sizeof(Number)]; };
template <class Stored> LAPSVM_INLINE Lanes<Real<Stored>> load(const Stored *x) {
    Lanes<Real<Stored>> a;
    for (int u = 0; u < LANES<Stored>; u++) a.at[u] = lapsvm_widened(x[u]);
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

}  // namespace lapsvm_scores

#ifdef LAPSVM_X86
#define LAPSVM_PRAGMA(text) _Pragma(#text)
#ifdef __clang__
#define LAPSVM_FOR(isa) LAPSVM_PRAGMA(clang attribute push(__attribute__((target(isa))), apply_to = function))
#define LAPSVM_FOR_ALL _Pragma("clang attribute pop")
#else
#define LAPSVM_FOR(isa) _Pragma("GCC push_options") LAPSVM_PRAGMA(GCC target(isa))
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
    LAPSVM_UNROLL_8 for (int i = n; i < 4; i++) s[i] = _mm_setzero_ps();
    _MM_TRANSPOSE4_PS(s[0], s[1], s[2], s[3]);
    _mm_storeu_ps(out, _mm_add_ps(_mm_add_ps(s[0], s[1]), _mm_add_ps(s[2], s[3])));
}
LAPSVM_INLINE void reduce(const Floats *sums, int n, float *out) {
    __m128 s[4];
    LAPSVM_UNROLL_8 for (int i = 0; i < n; i++) s[i] = folded(_mm256_add_ps(sums[i].low, sums[i].high));
    store_totals(s, n, out);
}
LAPSVM_INLINE void reduce(const Doubles *sums, int n, double *out) {
    LAPSVM_UNROLL_8 for (int i = 0; i < n; i++) out[i] = total(_mm256_add_pd(sums[i].low, sums[i].high));
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
    LAPSVM_UNROLL_8 for (int i = 0; i < n; i++)
        s[i] = avx2::folded(_mm256_add_ps(_mm512_castps512_ps256(sums[i]), _mm512_extractf32x8_ps(sums[i], 1)));
    avx2::store_totals(s, n, out);
}
LAPSVM_INLINE void reduce(const __m512d *sums, int n, double *out) {
    LAPSVM_UNROLL_8 for (int i = 0; i < n; i++)
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

/* Answer a request about features (n, d). Cython before 3.3 calls it with a type that is const. */
template <class Given>
static void lapsvm_pass(int level, const Given *features, lapsvm_scores::Request *request) {
    using namespace lapsvm_scores;
    typedef typename std::remove_const<Given>::type Stored;
    Query<Stored> query(features, request);
    (void)level;
#ifdef LAPSVM_X86
#ifdef LAPSVM_AMX
    if constexpr (sizeof(Stored) == 2)
        if (level == 5) return amx::best_of(query);
#endif
    if (level == 4) return avx512::best_of(query);
    if (level == 3) return avx2::best_of(query);
#endif
    plain::best_of(query);
}

#endif
