/* What depends on the compiler and the processor, for the headers of the kernels. */
#ifndef LAPSVM_COMPILER_H
#define LAPSVM_COMPILER_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LAPSVM_SANITIZED
#endif

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define LAPSVM_X86
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"   /* GCC 12's own headers of AVX-512 */
#endif
#endif

/* A function for several instruction sets, of which the machine picks one when the module is loaded. A sanitizer
   starts only after that. */
#if !defined(LAPSVM_SANITIZED) && defined(LAPSVM_X86) && defined(__GLIBC__) && !defined(__clang__) && __GNUC__ >= 12
#define LAPSVM_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define LAPSVM_CLONES
#endif

/* What each of the clones contains, and loops of at most 8 or 32 steps without a jump. A sanitizer's checks in
   unrolled loops take minutes to compile. */
#ifdef LAPSVM_SANITIZED
#define LAPSVM_INLINE static inline
#define LAPSVM_UNROLL_8
#define LAPSVM_UNROLL_32
#else
#define LAPSVM_INLINE static inline __attribute__((always_inline))
#define LAPSVM_UNROLL_8 _Pragma("GCC unroll 8")
#define LAPSVM_UNROLL_32 _Pragma("GCC unroll 32")
#endif

#endif
