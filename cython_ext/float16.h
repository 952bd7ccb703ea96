/* Rows of float32 numbers as float16, to nearest, ties to even, and back, for float16.pyx. */
#ifndef LAPSVM_FLOAT16_H
#define LAPSVM_FLOAT16_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "compiler.h"
#include "widening.h"

/* Write n numbers as float16; return whether one is NaN, infinite or larger than the largest float16: its bits mean
   nothing. */
LAPSVM_CLONES
static int lapsvm_round_row(const float* numbers, uint16_t* rounded, ptrdiff_t n) {
    uint32_t misfits = 0;
    for (ptrdiff_t j = 0; j < n; j++) {
        uint32_t bits, size, normal, small;
        float sum;
        memcpy(&bits, &numbers[j], 4);
        size = bits & 0x7fffffffu;
        misfits |= size > 0x477fe000u;                       /* 65504, the largest float16 */
        normal = (size - 0x38000000u + 0xfffu + ((size >> 13) & 1u)) >> 13;
        memcpy(&sum, &size, 4);
        sum += 0.5f;                                         /* its last place is that of a subnormal float16 */
        memcpy(&small, &sum, 4);
        small -= 0x3f000000u;
        rounded[j] = (uint16_t)((size < 0x38800000u ? small : normal) | (bits >> 16 & 0x8000u));
    }
    return (int)misfits;
}

/* Write n float16 numbers as floats: exact, also infinity and NaN. */
LAPSVM_CLONES
static void lapsvm_widen_row(const uint16_t* stored, float* numbers, ptrdiff_t n) {
    for (ptrdiff_t j = 0; j < n; j++) numbers[j] = lapsvm_from_float16(stored[j], 0);
}

#endif
