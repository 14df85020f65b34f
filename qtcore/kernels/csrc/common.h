/* What all kernels share: unrolled belief propagation on a CPU, one sample at a time, so that a layer's messages stay
   in the cache.

   The equations are those of the plain torch layers (there with references to the paper); the backward passes are their
   derivatives by hand. build.py compiles these files once for float and once for double. Every kernel has the form

       int kernel(const task *t, integer first, integer last, integer thread)

   and handles the samples first … last−1, so that several threads can share a batch. Gradients of shared parameters go
   to one accumulator per thread. Nothing is allocated here: a kernel says how much scratch memory it needs (…_scratch,
   in numbers per thread), and its caller puts it into the task. Rows of hidden units and of states are padded to whole
   vectors. A kernel returns 0, or a fault (below): before it has read anything out of bounds, or between two layers
   when the task says `stop`. */

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

enum fault { BAD_COUNT = 1, BAD_INDEX = 2, STOPPED = 3, BAD_PLACE = 4, BAD_TABLE = 5 }; /* as in ops/shared.py */

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

/* log(x) for normal x > 0, written so that loops over it become vector code: x = 2^k m, and with m near 1,
   log m = 2 atanh(s) for s = (m−1)/(m+1), |s| < 0.172, as an odd series. */
static inline float float_log(float x) {
    union { float f; int i; } bits = {x};
    int shifted = bits.i - 0x3f3504f3; /* bits of sqrt(1/2) */
    float k = (float)(shifted >> 23);
    bits.i = (shifted & 0x7fffff) + 0x3f3504f3;
    float s = (bits.f - 1.0f) / (bits.f + 1.0f), z = s * s;
    float series = 1.0f + z * (1.0f / 3 + z * (0.2f + z * (1.0f / 7 + z * (1.0f / 9))));
    return k * 0.69314718f + 2.0f * s * series;
}
static inline double double_log(double x) {
    const uint64_t half = 0x3fe6a09e667f3bcd; /* bits of sqrt(1/2) */
    union { double f; uint64_t i; } bits = {x};
    uint64_t shifted = bits.i - half + ((uint64_t)1024 << 52);
    double k = (double)((int)(shifted >> 52) - 1024);
    bits.i = (shifted & 0xfffffffffffff) + half;
    double s = (bits.f - 1) / (bits.f + 1), z = s * s, series = 1.0 / 21;
    for (int n = 19; n > 0; n -= 2) series = series * z + 1.0 / n;
    return k * 0.6931471805599453 + 2 * s * series;
}
static inline real fast_log(real x) { return sizeof(real) == 4 ? (real)float_log((float)x) : (real)double_log(x); }

/* exp(x), likewise: x = k log 2 + r with |r| < 0.35, a power of 2 times a series. Below −87 it stays at e^−87. */
static inline float float_exp(float x) {
    x = x < -87.0f ? -87.0f : x;
    float k = rintf(x * 1.44269504f), r = x - k * 0.69314718f;
    float series = 1.0f + r * (1.0f + r * (0.5f + r * (1.0f / 6 + r * (1.0f / 24 + r * (1.0f / 120 + r / 720)))));
    union { int i; float f; } power = {((int)k + 127) << 23};
    return series * power.f;
}
/* log 2 in two parts: k times the first is exact. fma, since sums may be reordered. Below −708 it stays at e^−708. */
static inline double double_exp(double x) {
    x = x < -708.0 ? -708.0 : x;
    double k = rint(x * 1.4426950408889634);
    double r = fma(k, -1.90821492927058770002e-10, fma(k, -0.693147180369123816490, x)), series = 1.0 / 13;
    for (int n = 12; n > 0; n--) series = (1 + r * series) / n;
    union { int64_t i; double f; } power = {(int64_t)((int)k + 1023) << 52};
    return (1 + r * series) * power.f;
}
static inline real fast_exp(real x) { return sizeof(real) == 4 ? (real)float_exp((float)x) : (real)double_exp(x); }
