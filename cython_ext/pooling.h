/* Weighted sums of rows of LAPSVM_LANES float64 numbers, for pooling.pyx. The order of the terms is fixed and no lane
   depends on another, so every instruction set gives the same bits. */
#ifndef LAPSVM_POOLING_H
#define LAPSVM_POOLING_H

#include <stddef.h>
#include <stdint.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)   /* resolvers run before a sanitizer does */
#define LAPSVM_POOLING_CLONES
#elif defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12
#define LAPSVM_POOLING_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define LAPSVM_POOLING_CLONES
#endif
#define LAPSVM_POOLING_LANES 32   /* channels at a time: their sums stay in the second cache */

/* spelled out, because the compiler's own choice is to gather over the terms, which is twice as slow */
typedef double lapsvm_eight __attribute__((vector_size(64), aligned(8), may_alias));

/* out[i][j] = sum over t of weights[i][t] * sums[offsets[i][t]][j], for n windows of at most `most` terms each */
LAPSVM_POOLING_CLONES
static void lapsvm_pool(
    const double* sums, const int32_t* offsets, const double* weights, const int32_t* counts, ptrdiff_t n, ptrdiff_t most,
    double* out
) {
    ptrdiff_t i, t;
    for (i = 0; i < n; i++, offsets += most, weights += most, out += LAPSVM_POOLING_LANES) {
        lapsvm_eight a = {0.0}, b = {0.0}, c = {0.0}, d = {0.0};
        for (t = 0; t < counts[i]; t++) {
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
}

#endif
