/* Tiles and bags for one instruction set, in the namespace that includes this file, again and again.

   The namespace has `load` (LANES features, widened), `multiply_add`, `reduce` (the totals of n <= ROWS sums), and the
   size of its tiles, ROWS windows times at most WIDEST weight vectors. */

/* One step of R rows `stride` apart times V weight vectors, added to sums[vector * R + row]. */
template <int R, int V, class Stored, class Vector>
LAPSVM_INLINE void step(const Stored *x, ptrdiff_t stride, const Real<Stored> *w, Vector *sums) {
    Vector wide[R];
    LAPSVM_UNROLL_8 for (int r = 0; r < R; r++) wide[r] = load(x + r * stride);
    LAPSVM_UNROLL_8 for (int v = 0; v < V; v++) {
        Vector weight = load(w + LANES<Stored> * v);
        LAPSVM_UNROLL_8 for (int r = 0; r < R; r++) sums[v * R + r] = multiply_add(wide[r], weight, sums[v * R + r]);
    }
}

/* R rows times V weight vectors; out[4 * vector + row]. */
template <int R, int V, class Stored>
LAPSVM_INLINE void tile(const Stored *x, ptrdiff_t d, const Real<Stored> *w, Real<Stored> *out) {
    constexpr int lanes = LANES<Stored>;
    decltype(load(w)) sums[R * V];
    ptrdiff_t j = 0;
    LAPSVM_UNROLL_32 for (int i = 0; i < R * V; i++) sums[i] = decltype(load(w)){};
    for (; j + lanes <= d; j += lanes, w += lanes * V) {
        LAPSVM_UNROLL_8 for (int r = 0; r < R; r++)
            if (R > 1) __builtin_prefetch(x + (d + j) * R + r * lanes);
        step<R, V>(x + j, d, w, sums);
    }
    if (j < d) {
        Stored tail[R * lanes] = {0};
        for (int r = 0; r < R; r++) memcpy(tail + r * lanes, x + r * d + j, (d - j) * sizeof(Stored));
        step<R, V>(tail, lanes, w, sums);
    }
    LAPSVM_UNROLL_8 for (int v = 0; v < V; v++) reduce(sums + v * R, R, out + 4 * v);
}

/* The tile of R rows times `width` weight vectors, V or fewer. */
template <int R, int V, class Stored>
LAPSVM_INLINE void tile_of(ptrdiff_t width, const Stored *x, ptrdiff_t d, const Real<Stored> *w, Real<Stored> *out) {
    if (V == 1 || width == V) tile<R, V>(x, d, w, out);
    else tile_of<R, (V > 1 ? V - 1 : 1)>(width, x, d, w, out);
}

/* Bags, tile by tile. */
template <class Stored> static void best_of(Query<Stored> of) {
    ptrdiff_t step = (of.d + LANES<Stored> - 1) / LANES<Stored> * LANES<Stored>;
    of.begin();
    for (ptrdiff_t bag = 0; bag < of.n_bags; bag++) {
        ptrdiff_t size = of.size(bag);
        const Stored *first = of.x + of.starts[bag] * of.d;
        for (ptrdiff_t i = 0, rows; i < size; i += rows) {
            rows = of.k > 1 && i + ROWS <= size ? ROWS : 1;
            for (ptrdiff_t q = 0, width; q < of.k; q += width) {
                Real<Stored> out[4 * WIDEST];
                width = width_of(of.k, q, WIDEST);
                if (rows == ROWS) tile_of<ROWS, WIDEST>(width, first + i * of.d, of.d, of.packed + q * step, out);
                else tile_of<1, WIDEST>(width, first + i * of.d, of.d, of.packed + q * step, out);
                int some = 0;
                for (ptrdiff_t v = 0; v < width; v++)
                    for (ptrdiff_t r = 0; r < rows; r++) some |= out[4 * v + r] > of.floors[q + v];
                for (ptrdiff_t v = 0; some && v < width; v++)
                    for (ptrdiff_t r = 0; r < rows; r++)
                        if (out[4 * v + r] > of.floors[q + v] && !(of.excluded && of.excluded[i + r]))
                            keep(of.kept + q + v, of.floors + q + v, out[4 * v + r], of.margins[q + v], i + r,
                                 (const char *)first, of.d * sizeof(Stored));
            }
        }
        of.finish(bag);
    }
}
