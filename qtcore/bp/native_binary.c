/* Layers of the RBM and the DBM and their gradient.

   Messages as odds e = exp(m), uncertain variables only: the certain ones are in hidden_bias. With E = exp(w), and b1 : b0
   the odds of the belief at the sender, f_w of the cavity is rational and sums of logs are logs of products:
     e' = (e b0 + E b1) / (E e b0 + b1).
   Nothing cancels, as all terms are positive. On a bipartite graph the messages of one direction only need those of the
   other direction one layer before, so only one direction is computed in each layer, the one that the end depends on.
   Layer n (1 … N) sends to the visible variables when N − n is even, to the hidden units otherwise. */

#include "native.h"

typedef struct {
    long hidden, pixels, layers, block; /* hidden units, padded; row length of index …; N; how many odds may be multiplied */
    const long *count, *index;          /* [B], [B, pixels] */
    const real *odds;                   /* E = exp(W) [V, hidden], 1 where padded */
    const real *bias;                   /* biases plus soft evidence of the uncertain variables [B, pixels] */
    const real *hidden_bias, *start;    /* biases plus messages from the certain variables [B, hidden]; without them [hidden] */
    real *total;                        /* beliefs after the last layer [B, pixels] */
    real *states, *beliefs;             /* for the backward pass, or NULL: odds after each layer [B, N, pixels, hidden], and
                                           its senders' beliefs [B, N, larger of hidden and pixels] */
} rbm_task;

static long rbm_width(const rbm_task *t) { return t->hidden > t->pixels ? t->hidden : t->pixels; }
static int to_visible(const rbm_task *t, long n) { return (t->layers - n) % 2; } /* n counts from 0 */

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
static inline real fast_log(real x) { return sizeof(real) == 4 ? (real)float_log((float)x) : (real)log((double)x); }

/* One layer of one sample: from odds e to odds o (which may be the same), given the senders' beliefs. `receiver` holds
   biases on entry and gets the sums of the new messages added. */
static void rbm_layer(const rbm_task *t, long b, int visible, const real *sender, const real *e, real *o, real *receiver, real *work) {
    const long H = t->hidden, n_pixels = t->count[b], *index = t->index + b * t->pixels;
    real *one = work, *zero = one + rbm_width(t), *product = zero + rbm_width(t);
    sigmoids(visible ? H : n_pixels, sender, one, zero);
    for (long h = 0; h < H; h++) product[h] = 1;
    long pending = 0;
    for (long j = 0; j < n_pixels; j++) {
        const real *E = t->odds + index[j] * H, *in = e + j * H;
        real *out = o + j * H;
        if (visible) {
            SIMD for (long h = 0; h < H; h++) {
                real x = in[h] * zero[h];
                out[h] = (x + E[h] * one[h]) / (E[h] * x + one[h]);
            }
            real sum = 0;
            for (long start = 0; start < H; start += 8 * t->block) {
                const long end = start + 8 * t->block < H ? start + 8 * t->block : H;
                real lane[8] = {1, 1, 1, 1, 1, 1, 1, 1};
                for (long h = start; h < end; h += 8)
                    for (int i = 0; i < 8; i++) lane[i] *= out[h + i];
                for (int i = 0; i < 8; i++) sum += fast_log(lane[i]);
            }
            receiver[j] += sum;
        } else {
            const real b1 = one[j], b0 = zero[j];
            SIMD for (long h = 0; h < H; h++) {
                real x = in[h] * b0, y = (x + E[h] * b1) / (E[h] * x + b1);
                out[h] = y;
                product[h] *= y;
            }
            if (++pending == t->block || j + 1 == n_pixels) {
                SIMD for (long h = 0; h < H; h++) {
                    receiver[h] += fast_log(product[h]);
                    product[h] = 1;
                }
                pending = 0;
            }
        }
    }
}

void rbm_forward(const rbm_task *t, long first, long last) {
    const long H = t->hidden, J = t->pixels, N = t->layers, width = rbm_width(t);
    real *own = malloc(sizeof(real) * (J * H + 4 * width + H)), *sender = own + J * H, *receiver = sender + width;
    real *work = receiver + width;
    for (long b = first; b < last; b++) {
        const long n_pixels = t->count[b];
        const real *bias = t->bias + b * J, *hidden_bias = t->hidden_bias + b * H, *e = own;
        for (long i = 0; i < n_pixels * H; i++) own[i] = 1;
        memcpy(sender, to_visible(t, 0) ? t->start : bias, sizeof(real) * (to_visible(t, 0) ? H : n_pixels));
        for (long n = 0; n < N; n++) {
            const int visible = to_visible(t, n);
            memcpy(receiver, visible ? bias : hidden_bias, sizeof(real) * (visible ? n_pixels : H));
            real *o = t->states ? t->states + (b * N + n) * J * H : own;
            if (t->beliefs) memcpy(t->beliefs + (b * N + n) * width, sender, sizeof(real) * (visible ? H : n_pixels));
            rbm_layer(t, b, visible, sender, e, o, receiver, work);
            e = o;
            real *swap = sender;
            sender = receiver;
            receiver = swap;
        }
        memcpy(t->total + b * J, sender, sizeof(real) * n_pixels);
    }
    free(own);
}

/* d_bias arrives as the gradient of total and leaves as that of bias; d_start and d_W (of the weights themselves) belong
   to this thread alone. */
void rbm_backward(const rbm_task *t, long first, long last, real *d_bias, real *d_hidden_bias, real *d_start, real *d_W) {
    const long H = t->hidden, J = t->pixels, N = t->layers, width = rbm_width(t);
    real *g = malloc(sizeof(real) * (2 * J * H + 4 * width)), *ones = g + J * H; /* gradients of the cavities of the layer after */
    real *receiver = ones + J * H, *sender = receiver + width, *one = sender + width, *zero = one + width;
    for (long i = 0; i < J * H; i++) ones[i] = 1;
    for (long b = first; b < last; b++) {
        const long n_pixels = t->count[b], *index = t->index + b * J;
        memset(g, 0, sizeof(real) * n_pixels * H);
        memcpy(receiver, d_bias + b * J, sizeof(real) * n_pixels);
        for (long n = N - 1; n >= 0; n--) {
            const int visible = to_visible(t, n);
            const long senders = visible ? H : n_pixels;
            const real *e = n ? t->states + (b * N + n - 1) * J * H : ones;
            sigmoids(senders, t->beliefs + (b * N + n) * width, one, zero);
            memset(sender, 0, sizeof(real) * senders);
            for (long j = 0; j < n_pixels; j++) {
                const real *E = t->odds + index[j] * H, *in = e + j * H;
                real *gx = g + j * H, *dw = d_W + index[j] * H;
                if (visible) {
                    const real from = receiver[j];
                    SIMD for (long h = 0; h < H; h++) {
                        real G = from - gx[h], x = in[h] * zero[h], y = one[h], o = E[h];
                        real scaled = G / ((x + o * y) * (o * x + y)), d = scaled * x * y * (o * o - 1);
                        dw[h] += scaled * o * (y - x) * (y + x);
                        gx[h] = d;
                        sender[h] += d;
                    }
                } else {
                    const real b1 = one[j], b0 = zero[j];
                    real sum = 0;
                    SIMD for (long h = 0; h < H; h++) {
                        real G = receiver[h] - gx[h], x = in[h] * b0, y = b1, o = E[h];
                        real scaled = G / ((x + o * y) * (o * x + y)), d = scaled * x * y * (o * o - 1);
                        dw[h] += scaled * o * (y - x) * (y + x);
                        gx[h] = d;
                        sum += d;
                    }
                    sender[j] = sum;
                }
            }
            real *to = !visible ? d_bias + b * J : n ? d_hidden_bias + b * H : d_start;
            for (long i = 0; i < senders; i++) to[i] += sender[i];
            real *swap = sender;
            sender = receiver;
            receiver = swap;
        }
    }
    free(g);
}
