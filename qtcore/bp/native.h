/* What native_binary.c, native_gaussian.c and native_grid.c share: the unrolled networks on a CPU, one sample at a time, so
   that a layer's messages stay in the cache.

   Same equations as binary.py, gaussian.py and categorical.py (there with references to the paper); the backward passes
   are their derivatives by hand. native.py compiles the files once for float and once for double and hands over plain
   pointers. Rows of hidden units are padded with zero weights to a multiple of the vector length. Each call handles the
   samples first … last−1, so that several threads can share a batch; gradients of shared parameters go to one
   accumulator per thread. */

#pragma once
#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifndef REAL
#define REAL float
#endif
typedef REAL real;
#define SIMD _Pragma("GCC ivdep")

static inline real sigmoid(real x) {
    if (x >= 0) return (real)1 / ((real)1 + (real)exp(-x));
    real e = (real)exp(x);
    return e / ((real)1 + e);
}

/* p and 1 − p of each logit, both accurate. */
static inline void sigmoids(long H, const real *z, real *p, real *q) {
    for (long h = 0; h < H; h++) {
        p[h] = sigmoid(z[h]);
        q[h] = sigmoid(-z[h]);
    }
}
