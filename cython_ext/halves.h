/* float32 to float16, to nearest, ties to even, and back, for halves.pyx. */
#ifndef LAPSVM_HALVES_H
#define LAPSVM_HALVES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "clones.h"

/* Write n numbers as halves; return whether one is NaN, infinite or larger than the largest half: its bits mean
   nothing. */
LAPSVM_CLONES
static int lapsvm_to_halves(const float* numbers, uint16_t* halves, ptrdiff_t n) {
    uint32_t misfits = 0;
    for (ptrdiff_t j = 0; j < n; j++) {
        uint32_t bits, size, normal, small;
        float sum;
        memcpy(&bits, &numbers[j], 4);
        size = bits & 0x7fffffffu;
        misfits |= size > 0x477fe000u;                       /* 65504, the largest half */
        normal = (size - 0x38000000u + 0xfffu + ((size >> 13) & 1u)) >> 13;
        memcpy(&sum, &size, 4);
        sum += 0.5f;                                         /* its last place is that of a subnormal half */
        memcpy(&small, &sum, 4);
        small -= 0x3f000000u;
        halves[j] = (uint16_t)((size < 0x38800000u ? small : normal) | (bits >> 16 & 0x8000u));
    }
    return (int)misfits;
}

/* Write n halves as floats: exact, also infinity and NaN. A subnormal half begins as a subnormal float. */
LAPSVM_CLONES
static void lapsvm_from_halves_by_scale(const uint16_t* halves, float* numbers, ptrdiff_t n) {
    for (ptrdiff_t j = 0; j < n; j++) {
        uint32_t half = halves[j], bits = (half & 0x7fffu) << 13;
        float size;
        memcpy(&size, &bits, 4);
        size *= 0x1p112f;                                    /* 127 - 15 */
        memcpy(&bits, &size, 4);
        bits |= (half & 0x8000u) << 16 | ((half & 0x7c00u) == 0x7c00u ? 0x7f800000u : 0u);
        memcpy(&numbers[j], &bits, 4);
    }
}

/* The same without subnormal floats, in half as much time again. */
LAPSVM_CLONES
static void lapsvm_from_halves_by_parts(const uint16_t* halves, float* numbers, ptrdiff_t n) {
    for (ptrdiff_t j = 0; j < n; j++) {
        uint32_t half = halves[j], size = half & 0x7fffu, sum = size | 0x3f000000u, small, bits;
        float number;
        memcpy(&number, &sum, 4);
        number -= 0.5f;                                      /* its last place is that of a subnormal half */
        memcpy(&small, &number, 4);
        bits = ((size << 13) + 0x38000000u) | (size >= 0x7c00u ? 0x7f800000u : 0u);
        bits = (size < 0x400u ? small : bits) | (half & 0x8000u) << 16;
        memcpy(&numbers[j], &bits, 4);
    }
}

/* Write n halves as floats: exact, also infinity and NaN, and where the processor is set to take subnormal floats for
   0, as torch.set_flush_denormal does. */
static void lapsvm_from_halves(const uint16_t* halves, float* numbers, ptrdiff_t n) {
    volatile float least = 0x1p-149f;
    if (least * 0x1p112f != 0.0f)
        lapsvm_from_halves_by_scale(halves, numbers, n);
    else
        lapsvm_from_halves_by_parts(halves, numbers, n);
}

#endif
