/* What this library was compiled for. */

#include "common.h"

EXPORT const char *vector_instructions(void) {
#if defined(__AVX512F__)
    return "AVX-512";
#elif defined(__AVX2__)
    return "AVX2";
#elif defined(__AVX__)
    return "AVX";
#elif defined(__SSE2__)
    return "SSE2";
#elif defined(__ARM_FEATURE_SVE)
    return "SVE";
#elif defined(__ARM_NEON)
    return "NEON";
#else
    return "no vector instructions";
#endif
}

EXPORT integer real_bytes(void) { return sizeof(real); }
