/* A function for several instruction sets, of which the machine picks one when the module is loaded. */
#ifndef LAPSVM_CLONES_H
#define LAPSVM_CLONES_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)   /* resolvers run before a sanitizer does */
#define LAPSVM_CLONES
#elif defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12
#define LAPSVM_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define LAPSVM_CLONES
#endif

#endif
