/* Sums of a map over rectangles, and weighted sums of these, LAPSVM_POOLING_LANES channels at a time, for pooling.pyx.
   The order of the terms is fixed and no lane depends on another, so every instruction set gives the same bits. */
#ifndef LAPSVM_POOLING_H
#define LAPSVM_POOLING_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "compiler.h"

#define LAPSVM_POOLING_LANES 32   /* channels at a time: their sums stay in the second cache */
#define LAPSVM_POOLING_TERMS 16   /* rectangles that a window's mean needs at most */

/* spelled out, because the compiler's own choice is to gather over the terms, which is twice as slow */
typedef double lapsvm_eight __attribute__((vector_size(64), aligned(8), may_alias));

/* What the means of n groups of m windows, mixed in o ways, follow from. */
typedef struct {
    ptrdiff_t n, m, o;
    const int32_t* offsets;    /* (n, m, TERMS) rows of the sums */
    const double* weights;     /* (n, m, TERMS) */
    const int32_t* counts;     /* (n, m) how many terms there are */
    const double* mixes;       /* (n, o, m) */
    const double* rounding;    /* (n, o) largest error of a mixed mean, as a share of the channel's size */
    const double* sums;        /* (rows, LANES) */
    const double* sizes;       /* (LANES,) */
    double* means;             /* (m, LANES) of one group, to write to */
} lapsvm_pooling;

/* Write the sums ((rows + 1) * (columns + 1), LANES) over the rectangles that begin at the origin, for at most LANES
   channels of a map, and those of absolute values (LANES,). `line` is (columns, LANES). The lanes beyond, and the first
   row and column, hold zeros. */
LAPSVM_CLONES
static void lapsvm_integrate(
    const float* cells, ptrdiff_t channels, ptrdiff_t rows, ptrdiff_t columns, float* line, double* sums, double* sizes
) {
    ptrdiff_t channel, row, column, j, width = (columns + 1) * LAPSVM_POOLING_LANES;
    for (j = 0; j < LAPSVM_POOLING_LANES; j++) sizes[j] = 0.0;
    for (row = 0; row < rows; row++) {
        double total[LAPSVM_POOLING_LANES] = {0.0};
        const double* above = sums + row * width + LAPSVM_POOLING_LANES;
        for (channel = 0; channel < channels; channel++)
            for (column = 0; column < columns; column++)
                line[column * LAPSVM_POOLING_LANES + channel] = cells[(channel * rows + row) * columns + column];
        for (column = 0; column < columns; column++, above += LAPSVM_POOLING_LANES) {
            double* below = (double*)above + width;
            for (j = 0; j < LAPSVM_POOLING_LANES; j++) {
                double cell = line[column * LAPSVM_POOLING_LANES + j];
                total[j] += cell;
                sizes[j] += fabs(cell);
                below[j] = total[j] + above[j];
            }
        }
    }
}

/* out[j] = sum over t of weights[t] * sums[offsets[t]][j] */
LAPSVM_INLINE void lapsvm_pool_window(
    const double* sums, const int32_t* offsets, const double* weights, ptrdiff_t count, double* out
) {
    lapsvm_eight a = {0.0}, b = {0.0}, c = {0.0}, d = {0.0};
    for (ptrdiff_t t = 0; t < count; t++) {
        const lapsvm_eight* row = (const lapsvm_eight*)(sums + (ptrdiff_t)offsets[t] * LAPSVM_POOLING_LANES);
        a += weights[t] * row[0];
        b += weights[t] * row[1];
        c += weights[t] * row[2];
        d += weights[t] * row[3];
    }
    ((lapsvm_eight*)out)[0] = a;
    ((lapsvm_eight*)out)[1] = b;
    ((lapsvm_eight*)out)[2] = c;
    ((lapsvm_eight*)out)[3] = d;
}

LAPSVM_INLINE void lapsvm_pool_group(const lapsvm_pooling* p, ptrdiff_t i) {
    for (ptrdiff_t k = i * p->m; k < (i + 1) * p->m; k++)
        lapsvm_pool_window(
            p->sums, p->offsets + k * LAPSVM_POOLING_TERMS, p->weights + k * LAPSVM_POOLING_TERMS, p->counts[k],
            p->means + (k - i * p->m) * LAPSVM_POOLING_LANES
        );
}

/* Mix the means of group i in the k-th way; what rounding may explain becomes 0. */
LAPSVM_INLINE void lapsvm_mix(const lapsvm_pooling* p, ptrdiff_t i, ptrdiff_t k, double* out) {
    const double* mix = p->mixes + (i * p->o + k) * p->m;
    double share = p->rounding[i * p->o + k];
    for (ptrdiff_t j = 0; j < LAPSVM_POOLING_LANES; j++) out[j] = mix[0] * p->means[j];
    for (ptrdiff_t v = 1; v < p->m; v++)
        for (ptrdiff_t j = 0; j < LAPSVM_POOLING_LANES; j++) out[j] += mix[v] * p->means[v * LAPSVM_POOLING_LANES + j];
    for (ptrdiff_t j = 0; j < LAPSVM_POOLING_LANES; j++) {
        double bound = share * p->sizes[j], value = out[j];
        out[j] = (fabs(value) <= bound) & (bound < HUGE_VAL) ? 0.0 : value;
    }
}

/* Write the mixed means of the first `channels` lanes to out[i * stride + k * across + lane]. */
LAPSVM_CLONES
static void lapsvm_pool_means(
    const lapsvm_pooling* p, ptrdiff_t channels, float* out, ptrdiff_t stride, ptrdiff_t across
) {
    double mixed[LAPSVM_POOLING_LANES];
    for (ptrdiff_t i = 0; i < p->n; i++) {
        lapsvm_pool_group(p, i);
        for (ptrdiff_t k = 0; k < p->o; k++) {
            float* row = out + i * stride + k * across;
            lapsvm_mix(p, i, k, mixed);
            if (channels == LAPSVM_POOLING_LANES)
                for (ptrdiff_t j = 0; j < LAPSVM_POOLING_LANES; j++) row[j] = (float)mixed[j];
            else
                for (ptrdiff_t j = 0; j < channels; j++) row[j] = (float)mixed[j];
        }
    }
}

/* Add the squares of the mixed means to out (n, o, 8), lane j to the sum j mod 8. */
LAPSVM_CLONES
static void lapsvm_pool_squares(const lapsvm_pooling* p, double* out) {
    double mixed[LAPSVM_POOLING_LANES];
    for (ptrdiff_t i = 0; i < p->n; i++) {
        lapsvm_pool_group(p, i);
        for (ptrdiff_t k = 0; k < p->o; k++, out += 8) {
            lapsvm_mix(p, i, k, mixed);
            for (ptrdiff_t v = 0; v < LAPSVM_POOLING_LANES; v += 8)
                for (ptrdiff_t j = 0; j < 8; j++) out[j] += mixed[v + j] * mixed[v + j];
        }
    }
}

#endif
