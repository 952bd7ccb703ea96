/* Stored numbers as float or double, exactly. */
#ifndef LAPSVM_WIDENING_H
#define LAPSVM_WIDENING_H

#include <stdint.h>
#include <string.h>

#include "compiler.h"

/* The float with the bits of a float16. No step has a subnormal float, so the processor may be set to take these for 0,
   as torch.set_flush_denormal does. A caller whose numbers are all finite, a constant, saves two instructions.

   A normal number is twice itself less itself, a subnormal one of mantissa m is 2^-14 (1 + m) less 2^-14. Both
   differences are exact, and `wide` is formed alike for both. */
LAPSVM_INLINE float lapsvm_from_float16(uint16_t bits, int all_finite) {
    const uint32_t rebias = 112u << 23;                  /* 127 - 15 */
    int32_t magnitude = bits & 0x7fff, normal = magnitude > 0x400 ? magnitude : 0x400;
    uint32_t wide = ((uint32_t)magnitude << 13) + rebias + (1u << 23), once = ((uint32_t)normal << 13) + rebias;
    float value, less;
    memcpy(&value, &wide, 4);
    memcpy(&less, &once, 4);
    value -= less;
    memcpy(&wide, &value, 4);
    if (!all_finite) wide += rebias & -(uint32_t)(magnitude >= 0x7c00);   /* infinity and NaN */
    wide |= (uint32_t)(bits & 0x8000) << 16;
    memcpy(&value, &wide, 4);
    return value;
}

#ifdef __cplusplus
/* Numbers of bags, which are finite; those of int16_t are bfloat16. */
LAPSVM_INLINE float lapsvm_widened(uint16_t bits) { return lapsvm_from_float16(bits, 1); }
LAPSVM_INLINE float lapsvm_widened(int16_t upper) {
    uint32_t bits = (uint32_t)(uint16_t)upper << 16;
    float value;
    memcpy(&value, &bits, 4);
    return value;
}
LAPSVM_INLINE float lapsvm_widened(float value) { return value; }
LAPSVM_INLINE double lapsvm_widened(double value) { return value; }
#endif

#endif
