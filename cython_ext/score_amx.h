/* Panels of 32 windows times groups of 16 weight vectors by AMX, whose tiles multiply bfloat16 and sum float32.

   A stored half has 11 binary digits and is the sum of two bfloat16 numbers of 8, `high` and `low`, exactly; two hold
   a weight but for a rest. Three of their four products are summed. `_gamma_of_pairs` in lapsvm/bags/scoring.py bounds
   what is lost. A panel takes windows of one bag after another, so short bags cost no more. */

namespace amx {
constexpr int ROWS = 16, COLUMNS = 16, STEP = 32, PANEL = 2 * ROWS, BLOCKS = 4;   /* BLOCKS steps are split at once */
constexpr ptrdiff_t TILE = ROWS * STEP;

/* What was written through a pointer is in memory: GCC's tile instructions do not say that they read it. */
LAPSVM_INLINE void written(const void *memory) { __asm__ volatile("" : : "r"(memory) : "memory"); }

/* [step][high or low][window][feature]; feature f of a step stands beside f + 16. Weights come as groups of vectors,
   each [step][high or low][pair][vector][feature of the pair] (`_in_pairs` in lapsvm/bags/scoring.py). */
struct Split { alignas(64) uint16_t at[BLOCKS][2][PANEL][STEP]; };

LAPSVM_INLINE void split(const uint16_t *x, uint16_t *high, uint16_t *low) {
    const __m512i half = _mm512_set1_epi32(0x8000), upper = _mm512_set1_epi32((int)0xffff0000);
    __m512 first = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)x));
    __m512 second = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(x + 16)));
    __m512i a = _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(first), half), upper);
    __m512i b = _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(second), half), upper);
    __m512i c = _mm512_castps_si512(_mm512_sub_ps(first, _mm512_castsi512_ps(a)));
    __m512i e = _mm512_castps_si512(_mm512_sub_ps(second, _mm512_castsi512_ps(b)));
    _mm512_store_si512(high, _mm512_or_si512(_mm512_srli_epi32(a, 16), b));
    _mm512_store_si512(low, _mm512_or_si512(_mm512_srli_epi32(c, 16), e));   /* c and e end with 16 zeros */
}
LAPSVM_INLINE void split(const int16_t *x, uint16_t *high, uint16_t *) {
    __m512i both = _mm512_loadu_si512(x);   /* words 0 to 31 -> 0, 16, 1, 17, ... */
    const __m512i order = _mm512_set_epi16(
        31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1,
        16, 0);
    _mm512_store_si512(high, _mm512_permutexvar_epi16(order, both));
}

template <class Stored> constexpr bool HAS_LOW = std::is_same<Stored, uint16_t>::value;

/* Split `steps` steps of a row of which `left` features are left; what is behind them counts as 0. */
template <class Stored>
LAPSVM_INLINE void split_row(const Stored *x, ptrdiff_t left, int steps, int row, Split *parts, ptrdiff_t distance) {
    for (int s = 0; s < steps; s++, x += STEP, left -= STEP) {
        Stored tail[STEP];
        const Stored *from = x;
        if (left < STEP) {
            memset(tail, 0, sizeof tail);
            memcpy(tail, x, left * sizeof(Stored));
            from = tail;
        }
        __builtin_prefetch(x + distance, 0, 2);
        split(from, parts->at[s][0][row], parts->at[s][1][row]);
    }
}

/* R * 16 windows times G groups of weight vectors: add the products of some steps to `sums`. */
template <int R, int G, bool LOW>
LAPSVM_INLINE void product(
    const Split &parts, int steps, const uint16_t *w, ptrdiff_t group_size, float *sums, ptrdiff_t columns,
    bool first) {
    const ptrdiff_t row = columns * sizeof(float);
    float *below = sums + ROWS * columns;
    written(&parts);
    if (first) {
        _tile_zero(0); _tile_zero(1); _tile_zero(2); _tile_zero(3);
    } else {
        _tile_loadd(0, sums, row);
        if (R > 1) _tile_loadd(1, below, row);
        if (G > 1) _tile_loadd(2, sums + COLUMNS, row);
        if (R > 1 && G > 1) _tile_loadd(3, below + COLUMNS, row);
    }
    for (int s = 0; s < steps; s++, w += 2 * TILE) {
        const uint16_t *high = parts.at[s][0][0], *low = parts.at[s][1][0];
        _tile_loadd(4, high, 64);
        if (R > 1) _tile_loadd(5, high + TILE, 64);
        _tile_loadd(6, w, 64);
        _tile_dpbf16ps(0, 4, 6);
        if (R > 1) _tile_dpbf16ps(1, 5, 6);
        if (LOW) { _tile_loadd(7, low, 64); _tile_dpbf16ps(0, 7, 6); }
        if (LOW && R > 1) { _tile_loadd(7, low + TILE, 64); _tile_dpbf16ps(1, 7, 6); }
        _tile_loadd(6, w + TILE, 64);
        _tile_dpbf16ps(0, 4, 6);
        if (R > 1) _tile_dpbf16ps(1, 5, 6);
        if (G > 1) {
            _tile_loadd(6, w + group_size, 64);
            _tile_dpbf16ps(2, 4, 6);
            if (R > 1) _tile_dpbf16ps(3, 5, 6);
            if (LOW) { _tile_loadd(7, low, 64); _tile_dpbf16ps(2, 7, 6); }
            if (LOW && R > 1) { _tile_loadd(7, low + TILE, 64); _tile_dpbf16ps(3, 7, 6); }
            _tile_loadd(6, w + group_size + TILE, 64);
            _tile_dpbf16ps(2, 4, 6);
            if (R > 1) _tile_dpbf16ps(3, 5, 6);
        }
    }
    _tile_stored(0, sums, row);
    if (R > 1) _tile_stored(1, below, row);
    if (G > 1) _tile_stored(2, sums + COLUMNS, row);
    if (R > 1 && G > 1) _tile_stored(3, below + COLUMNS, row);
}

template <int R, bool LOW>
LAPSVM_INLINE void products(
    const Split &parts, int steps, const uint16_t *w, ptrdiff_t group_size, float *sums, ptrdiff_t columns,
    bool first) {
    ptrdiff_t q = 0;
    for (; q + 2 * COLUMNS <= columns; q += 2 * COLUMNS, w += 2 * group_size)
        product<R, 2, LOW>(parts, steps, w, group_size, sums + q, columns, first);
    if (q < columns) product<R, 1, LOW>(parts, steps, w, group_size, sums + q, columns, first);
}

/* The scores of n <= PANEL windows: sums[window * columns + vector]. */
template <class Stored>
static void scores_of(
    const Stored *const *rows, int n, ptrdiff_t d, const uint16_t *w, float *sums, ptrdiff_t columns, Split *parts) {
    ptrdiff_t group_size = (d + STEP - 1) / STEP * 2 * TILE;
    for (ptrdiff_t j = 0; j < d; j += BLOCKS * STEP, w += BLOCKS * 2 * TILE) {
        int steps = (int)(d - j < BLOCKS * STEP ? (d - j + STEP - 1) / STEP : BLOCKS);
        for (int r = 0; r < n; r++) split_row(rows[r] + j, d - j, steps, r, parts, PANEL * d);
        if (n > ROWS) products<2, HAS_LOW<Stored>>(*parts, steps, w, group_size, sums, columns, j == 0);
        else products<1, HAS_LOW<Stored>>(*parts, steps, w, group_size, sums, columns, j == 0);
    }
}

/* Keep a window of a bag for each vector for which it scores above the floor. */
template <class Stored>
LAPSVM_INLINE void offer(const Query<Stored> &of, const float *sums, ptrdiff_t columns, ptrdiff_t i, const char *bag) {
    for (ptrdiff_t g = 0; g < columns; g += COLUMNS) {
        unsigned above = _mm512_cmp_ps_mask(_mm512_loadu_ps(sums + g), _mm512_loadu_ps(of.floors + g), _CMP_GT_OQ);
        for (; above; above &= above - 1) {
            ptrdiff_t q = g + __builtin_ctz(above);
            keep(of.kept + q, of.floors + q, sums[q], of.margins[q], i, bag, of.d * sizeof(Stored));
        }
    }
}

struct Configuration { uint8_t palette = 1, rest[15] = {0}; uint16_t bytes[16] = {0}; uint8_t rows[16] = {0}; };

/* Bags, panel by panel: `sums` has room for a panel, and `floors` for `columns`. */
template <class Stored> static void best_of(Query<Stored> of) {
    const ptrdiff_t columns = (of.k + COLUMNS - 1) / COLUMNS * COLUMNS;
    const Stored *rows[PANEL];
    Split parts = {};
    Configuration tiles;
    for (int t = 0; t < 8; t++) { tiles.bytes[t] = 64; tiles.rows[t] = ROWS; }
    written(&tiles);
    _tile_loadconfig(&tiles);
    for (ptrdiff_t q = of.k; q < columns; q++) of.floors[q] = INFINITY;
    ptrdiff_t bag = 0, i = 0, next_bag = 0, next = 0;
    of.begin();
    for (int n = PANEL; n == PANEL;) {
        for (n = 0; n < PANEL && next_bag < of.n_bags;) {
            if (next < of.size(next_bag)) rows[n++] = of.x + (of.starts[next_bag] + next++) * of.d;
            else next_bag++, next = 0;
        }
        if (n) scores_of(rows, n, of.d, (const uint16_t *)of.packed, of.sums, columns, &parts);
        for (int r = 0; r < n; r++, i++) {
            for (; i == of.size(bag); i = 0) of.finish(bag++);
            if (!(of.excluded && of.excluded[i]))
                offer(of, of.sums + r * columns, columns, i, (const char *)(of.x + of.starts[bag] * of.d));
        }
    }
    while (bag < of.n_bags) of.finish(bag++);
    _tile_release();
}
}  // namespace amx
