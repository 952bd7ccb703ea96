/* Dot products, norms and sums of stored rows in float64 lanes, for bags.pyx.

   Halves are widened by integer steps, exactly, subnormal numbers included. */
#ifndef LAPSVM_BAGS_H
#define LAPSVM_BAGS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)   /* resolvers run before a sanitizer does */
#define LAPSVM_CLONES
#elif defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12
#define LAPSVM_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define LAPSVM_CLONES
#endif
#define LAPSVM_LANES 32

static inline float lapsvm_widen_one(uint16_t half) {    /* finite halves only; bags hold no others */
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t magnitude = (uint32_t)(half & 0x7fff) << 13;
    uint32_t normal = magnitude + (112u << 23);          /* 127 - 15 */
    uint32_t subnormal = magnitude + (113u << 23);       /* 2^-14 (1 + m), of which 2^-14 is taken away */
    uint32_t is_sub = -(uint32_t)(magnitude < 0x00800000u), bits;
    float value;
    memcpy(&value, &subnormal, 4);
    value -= 6.103515625e-05f;
    memcpy(&subnormal, &value, 4);
    bits = (subnormal & is_sub) | (normal & ~is_sub) | sign;
    memcpy(&value, &bits, 4);
    return value;
}

static inline float lapsvm_widen_bfloat(int16_t upper) {
    uint32_t bits = (uint32_t)(uint16_t)upper << 16;
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

#define LAPSVM_SAME(value) (value)

#define LAPSVM_DOT(name, stored, widened, sum) \
    LAPSVM_CLONES static sum name(const stored *x, const sum *w, ptrdiff_t d) { \
        sum lanes[LAPSVM_LANES] = {0}, total = 0; \
        ptrdiff_t j = 0; \
        for (; j + LAPSVM_LANES <= d; j += LAPSVM_LANES) \
            for (int u = 0; u < LAPSVM_LANES; u++) lanes[u] += widened(x[j + u]) * w[j + u]; \
        for (int u = 0; u < LAPSVM_LANES; u++) total += lanes[u]; \
        for (; j < d; j++) total += widened(x[j]) * w[j]; \
        return total; \
    }
LAPSVM_DOT(lapsvm_dot64_half, uint16_t, lapsvm_widen_one, double)
LAPSVM_DOT(lapsvm_dot64_bfloat, int16_t, lapsvm_widen_bfloat, double)
LAPSVM_DOT(lapsvm_dot64_float, float, LAPSVM_SAME, double)
LAPSVM_DOT(lapsvm_dot64_double, double, LAPSVM_SAME, double)

#define LAPSVM_NORM2(name, stored, widened) \
    LAPSVM_CLONES static double name(const stored *x, const double *scale, ptrdiff_t d) { \
        double lanes[LAPSVM_LANES] = {0}, total = 0; \
        for (ptrdiff_t j = 0; j < d; j += LAPSVM_LANES) \
            for (ptrdiff_t u = 0; u < (d - j < LAPSVM_LANES ? d - j : LAPSVM_LANES); u++) { \
                double value = widened(x[j + u]) * scale[j + u]; \
                lanes[u] += value * value; \
            } \
        for (int u = 0; u < LAPSVM_LANES; u++) total += lanes[u]; \
        return total; \
    }
LAPSVM_NORM2(lapsvm_norm2_half, uint16_t, lapsvm_widen_one)
LAPSVM_NORM2(lapsvm_norm2_bfloat, int16_t, lapsvm_widen_bfloat)
LAPSVM_NORM2(lapsvm_norm2_float, float, LAPSVM_SAME)
LAPSVM_NORM2(lapsvm_norm2_double, double, LAPSVM_SAME)

#define LAPSVM_LENGTH2(name, stored, widened, sum) \
    LAPSVM_CLONES static double name(const stored *x, ptrdiff_t d) { \
        sum lanes[LAPSVM_LANES] = {0}; \
        double total = 0; \
        ptrdiff_t j = 0; \
        for (; j + LAPSVM_LANES <= d; j += LAPSVM_LANES) \
            for (int u = 0; u < LAPSVM_LANES; u++) lanes[u] += (sum)widened(x[j + u]) * widened(x[j + u]); \
        for (int u = 0; u < LAPSVM_LANES; u++) total += lanes[u]; \
        for (; j < d; j++) total += (double)widened(x[j]) * widened(x[j]); \
        return total; \
    }
LAPSVM_LENGTH2(lapsvm_length2_half, uint16_t, lapsvm_widen_one, float)
LAPSVM_LENGTH2(lapsvm_length2_bfloat, int16_t, lapsvm_widen_bfloat, float)
LAPSVM_LENGTH2(lapsvm_length2_float, float, LAPSVM_SAME, float)
LAPSVM_LENGTH2(lapsvm_length2_double, double, LAPSVM_SAME, double)
LAPSVM_LENGTH2(lapsvm_exact2_bfloat, int16_t, lapsvm_widen_bfloat, double)
LAPSVM_LENGTH2(lapsvm_exact2_float, float, LAPSVM_SAME, double)

#define LAPSVM_ADD(name, stored, widened) \
    LAPSVM_CLONES static void name(const stored *x, double c, double *out, ptrdiff_t d) { \
        for (ptrdiff_t j = 0; j < d; j++) out[j] += c * widened(x[j]); \
    }
LAPSVM_ADD(lapsvm_add_half, uint16_t, lapsvm_widen_one)
LAPSVM_ADD(lapsvm_add_bfloat, int16_t, lapsvm_widen_bfloat)
LAPSVM_ADD(lapsvm_add_float, float, LAPSVM_SAME)
LAPSVM_ADD(lapsvm_add_double, double, LAPSVM_SAME)

static inline void lapsvm_prefetch(const void *row, size_t bytes) {
    for (size_t at = 0; at < bytes; at += 64) __builtin_prefetch((const char *)row + at);
}

#define LAPSVM_BROKEN(name, stored, bits, mask) \
    LAPSVM_CLONES static int name(const stored *x, ptrdiff_t n) { \
        bits found = 0; \
        for (ptrdiff_t j = 0; j < n; j++) { \
            bits b; memcpy(&b, &x[j], sizeof b); \
            found |= (bits)((b & mask) == mask); \
        } \
        return found != 0; \
    }
LAPSVM_BROKEN(lapsvm_broken_half, uint16_t, uint16_t, 0x7c00u)
LAPSVM_BROKEN(lapsvm_broken_bfloat, int16_t, uint16_t, 0x7f80u)
LAPSVM_BROKEN(lapsvm_broken_float, float, uint32_t, 0x7f800000u)
LAPSVM_BROKEN(lapsvm_broken_double, double, uint64_t, 0x7ff0000000000000ull)

#endif
