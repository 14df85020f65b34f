/* What all kernels share: unrolled belief propagation on a CPU, one sample at a time, so that a layer's messages stay
   in the cache.

   The equations are those of the plain torch layers (there with references to the paper); the backward passes are their
   derivatives by hand. build.py compiles these files once for float and once for double. Every kernel has the form

       int kernel(const task *t, integer first, integer last, integer thread)

   and handles the samples first … last−1, so that several threads can share a batch. Gradients of shared parameters go
   to one accumulator per thread. Nothing is allocated here: a kernel says how much scratch memory it needs (…_scratch,
   in numbers per thread), and its caller puts it into the task. Rows of hidden units and of states are padded to whole
   vectors. A kernel returns 0, or a fault (below) before it has read anything out of bounds. */

#pragma once
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifndef REAL
#define REAL float
#endif
typedef REAL real;
typedef int64_t integer; /* torch's indices */

#define SIMD _Pragma("GCC ivdep")
#define EXPORT __attribute__((visibility("default")))

enum fault { BAD_COUNT = 1, BAD_INDEX = 2 }; /* as in ops.py */

/* A task's layout, for build.py to compare with its own: names and offsets of all fields, then NULL and the size. */
typedef struct {
    const char *name;
    integer offset;
} field;
#define FIELD(task, name) {#name, offsetof(task, name)}
#define END(task) {NULL, sizeof(task)}

/* Whether the samples' free variables can be read: `count` of them, each a row of a table with so many rows. */
static inline int check_places(const integer *count, const integer *index, integer columns, integer rows, integer first,
                               integer last) {
    for (integer b = first; b < last; b++) {
        if (count[b] < 0 || count[b] > columns) return BAD_COUNT;
        for (integer j = 0; j < count[b]; j++)
            if (index[b * columns + j] < 0 || index[b * columns + j] >= rows) return BAD_INDEX;
    }
    return 0;
}

/* A row of numbers, followed by zeros where it is padded. */
static inline void copy_padded(real *to, const real *from, integer length, integer padded) {
    memcpy(to, from, sizeof(real) * length);
    memset(to + length, 0, sizeof(real) * (padded - length));
}

static inline real sigmoid(real x) {
    if (x >= 0) return (real)1 / ((real)1 + (real)exp(-x));
    real e = (real)exp(x);
    return e / ((real)1 + e);
}

/* p and 1 − p of each logit, both accurate. */
static inline void sigmoids(integer n, const real *z, real *p, real *q) {
    for (integer h = 0; h < n; h++) {
        p[h] = sigmoid(z[h]);
        q[h] = sigmoid(-z[h]);
    }
}
