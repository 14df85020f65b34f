/* Layers of the RBM and the DBM and their gradient.

   Messages as odds e = exp(m), for the free variables only: the clamped ones are in hidden_bias. With E = exp(w), and
   b1 : b0 the odds of the belief at the sender, f_w of the cavity is rational and sums of logs are logs of products:
     e' = (e b0 + E b1) / (E e b0 + b1).
   Nothing cancels, as all terms are positive. On a bipartite graph the messages of one direction only need those of the
   other direction one layer before, so only one direction is computed in each layer, the one that the end depends on.
   Layer n (1 … N) sends to the visible variables when N − n is even, to the hidden units otherwise. */

#include "common.h"

typedef struct {
    integer hidden, units, rows, columns;  /* H with and without padding; V; J, the row length of index, bias … */
    integer layers;                        /* N */
    integer block;                         /* how many odds may be multiplied before one overflows */
    const integer *count, *index;          /* free variables of each sample [B], and which they are [B, J] */
    const real *odds;                      /* E = exp(W) [V, H], 1 where padded */
    const real *bias;                      /* biases plus soft evidence of the free variables [B, J] */
    const real *hidden_bias, *start;       /* biases, with the messages from the clamped variables
                                              [B, units]; without [units] */
    real *total;                           /* beliefs after the last layer [B, J] */
    real *states, *beliefs;                /* for the backward pass, or NULL: odds after each layer [B, N, J, H], and
                                              its senders' beliefs [B, N, larger of H and J] */
    real *d_bias;                          /* gradient: of total on entry, of bias on return [B, J] */
    real *d_hidden_bias;                   /* added to [B, units] */
    real *d_start, *d_W;                   /* added to, one for each thread: [threads, units], [threads, V, H] */
    real *scratch;                         /* [threads, scratch_size] */
    integer scratch_size;
    volatile integer stop; /* not 0 when the caller wants no answer any more */
} binary_task;

EXPORT const field binary_layout[] = {
    FIELD(binary_task, hidden), FIELD(binary_task, units), FIELD(binary_task, rows), FIELD(binary_task, columns),
    FIELD(binary_task, layers),
    FIELD(binary_task, block), FIELD(binary_task, count), FIELD(binary_task, index), FIELD(binary_task, odds),
    FIELD(binary_task, bias), FIELD(binary_task, hidden_bias), FIELD(binary_task, start), FIELD(binary_task, total),
    FIELD(binary_task, states), FIELD(binary_task, beliefs), FIELD(binary_task, d_bias),
    FIELD(binary_task, d_hidden_bias),
    FIELD(binary_task, d_start), FIELD(binary_task, d_W), FIELD(binary_task, scratch), FIELD(binary_task, scratch_size),
    FIELD(binary_task, stop), END(binary_task)};

static integer longer_side(const binary_task *t) { return t->hidden > t->columns ? t->hidden : t->columns; }
static int to_visible(const binary_task *t, integer n) { return (t->layers - n) % 2; } /* n counts from 0 */

EXPORT integer binary_forward_scratch(const binary_task *t) {
    return t->columns * t->hidden + 4 * longer_side(t) + t->hidden;
}
EXPORT integer binary_backward_scratch(const binary_task *t) { return 2 * t->columns * t->hidden + 4 * longer_side(t); }

/* Σ log of the odds in a row, as logs of products of `block` of them, in eight lanes. */
static inline real sum_of_logs(integer H, integer block, const real *odds) {
    real sum = 0;
    for (integer start = 0; start < H; start += 8 * block) {
        const integer end = start + 8 * block < H ? start + 8 * block : H;
        real lane[8] = {1, 1, 1, 1, 1, 1, 1, 1};
        for (integer h = start; h < end; h += 8)
            for (int i = 0; i < 8; i++) lane[i] *= odds[h + i];
        for (int i = 0; i < 8; i++) sum += fast_log(lane[i]);
    }
    return sum;
}

/* The hidden units of sample b send: from odds e to odds o (which may be the same), given their beliefs one : zero.
   `receiver` holds the free variables' biases on entry, and their beliefs on return. */
static void send_to_visible(const binary_task *t, integer b, const real *one, const real *zero, const real *e, real *o,
                            real *receiver) {
    const integer H = t->hidden, n = t->count[b], *index = t->index + b * t->columns;
    for (integer j = 0; j < n; j++) {
        const real *E = t->odds + index[j] * H, *in = e + j * H;
        real *out = o + j * H;
        SIMD for (integer h = 0; h < H; h++) {
            real x = in[h] * zero[h];
            out[h] = (x + E[h] * one[h]) / (E[h] * x + one[h]);
        }
        receiver[j] += sum_of_logs(H, t->block, out);
    }
}

/* The free variables of sample b send; `receiver` is that of the hidden units, `product` has room for H numbers. */
static void send_to_hidden(const binary_task *t, integer b, const real *one, const real *zero, const real *e, real *o,
                           real *receiver, real *product) {
    const integer H = t->hidden, n = t->count[b], *index = t->index + b * t->columns;
    for (integer h = 0; h < H; h++) product[h] = 1;
    integer pending = 0;
    for (integer j = 0; j < n; j++) {
        const real *E = t->odds + index[j] * H, *in = e + j * H, b1 = one[j], b0 = zero[j];
        real *out = o + j * H;
        SIMD for (integer h = 0; h < H; h++) {
            real x = in[h] * b0, y = (x + E[h] * b1) / (E[h] * x + b1);
            out[h] = y;
            product[h] *= y;
        }
        if (++pending == t->block || j + 1 == n) {
            SIMD for (integer h = 0; h < H; h++) {
                receiver[h] += fast_log(product[h]);
                product[h] = 1;
            }
            pending = 0;
        }
    }
}

EXPORT int binary_forward(const binary_task *t, integer first, integer last, integer thread) {
    const int fault = check_places(t->count, t->index, t->columns, t->rows, first, last);
    if (fault) return fault;
    const integer H = t->hidden, J = t->columns, N = t->layers, side = longer_side(t);
    real *own = t->scratch + thread * t->scratch_size, *sender = own + J * H, *receiver = sender + side;
    real *one = receiver + side, *zero = one + side, *product = zero + side;
    for (integer b = first; b < last; b++) {
        const integer n_free = t->count[b];
        const real *bias = t->bias + b * J, *hidden_bias = t->hidden_bias + b * t->units, *e = own;
        for (integer i = 0; i < n_free * H; i++) own[i] = 1; /* all messages start at 0 */
        if (to_visible(t, 0)) copy_padded(sender, t->start, t->units, H);
        else memcpy(sender, bias, sizeof(real) * n_free);
        for (integer n = 0; n < N; n++) {
            if (t->stop) return STOPPED;
            const int visible = to_visible(t, n);
            const integer senders = visible ? H : n_free;
            real *o = t->states ? t->states + (b * N + n) * J * H : own;
            if (t->beliefs) memcpy(t->beliefs + (b * N + n) * side, sender, sizeof(real) * senders);
            sigmoids(senders, sender, one, zero);
            if (visible) {
                memcpy(receiver, bias, sizeof(real) * n_free);
                send_to_visible(t, b, one, zero, e, o, receiver);
            } else {
                copy_padded(receiver, hidden_bias, t->units, H);
                send_to_hidden(t, b, one, zero, e, o, receiver, product);
            }
            e = o;
            real *swap = sender;
            sender = receiver;
            receiver = swap;
        }
        memcpy(t->total + b * J, sender, sizeof(real) * n_free);
    }
    return 0;
}

/* One layer backwards, hidden units sending. `receiver` has the gradients of the free variables' beliefs, g those of
   the next layer's cavities on entry and of this one's on return; `sender` gets those of the hidden units' beliefs. */
static void back_to_hidden(const binary_task *t, integer b, const real *one, const real *zero, const real *e,
                           const real *receiver, real *g, real *sender, real *d_W) {
    const integer H = t->hidden, n = t->count[b], *index = t->index + b * t->columns;
    for (integer j = 0; j < n; j++) {
        const real *E = t->odds + index[j] * H, *in = e + j * H, from = receiver[j];
        real *gx = g + j * H, *dw = d_W + index[j] * H;
        SIMD for (integer h = 0; h < H; h++) {
            real G = from - gx[h], x = in[h] * zero[h], y = one[h], o = E[h];
            real scaled = G / ((x + o * y) * (o * x + y)), d = scaled * x * y * (o * o - 1);
            dw[h] += scaled * o * (y - x) * (y + x);
            gx[h] = d;
            sender[h] += d;
        }
    }
}

/* The same with the free variables sending. */
static void back_to_visible(const binary_task *t, integer b, const real *one, const real *zero, const real *e,
                            const real *receiver, real *g, real *sender, real *d_W) {
    const integer H = t->hidden, n = t->count[b], *index = t->index + b * t->columns;
    for (integer j = 0; j < n; j++) {
        const real *E = t->odds + index[j] * H, *in = e + j * H, b1 = one[j], b0 = zero[j];
        real *gx = g + j * H, *dw = d_W + index[j] * H, sum = 0;
        SIMD for (integer h = 0; h < H; h++) {
            real G = receiver[h] - gx[h], x = in[h] * b0, y = b1, o = E[h];
            real scaled = G / ((x + o * y) * (o * x + y)), d = scaled * x * y * (o * o - 1);
            dw[h] += scaled * o * (y - x) * (y + x);
            gx[h] = d;
            sum += d;
        }
        sender[j] = sum;
    }
}

EXPORT int binary_backward(const binary_task *t, integer first, integer last, integer thread) {
    const int fault = check_places(t->count, t->index, t->columns, t->rows, first, last);
    if (fault) return fault;
    const integer H = t->hidden, J = t->columns, N = t->layers, side = longer_side(t);
    real *g = t->scratch + thread * t->scratch_size, *ones = g + J * H, *receiver = ones + J * H;
    real *sender = receiver + side, *one = sender + side, *zero = one + side;
    real *d_start = t->d_start + thread * t->units, *d_W = t->d_W + thread * t->rows * H;
    for (integer i = 0; i < J * H; i++) ones[i] = 1;
    for (integer b = first; b < last; b++) {
        const integer n_free = t->count[b];
        real *d_bias = t->d_bias + b * J, *d_hidden_bias = t->d_hidden_bias + b * t->units;
        memset(g, 0, sizeof(real) * n_free * H);
        memcpy(receiver, d_bias, sizeof(real) * n_free);
        for (integer n = N - 1; n >= 0; n--) {
            if (t->stop) return STOPPED;
            const int visible = to_visible(t, n);
            const integer senders = visible ? H : n_free;
            const real *e = n ? t->states + (b * N + n - 1) * J * H : ones;
            sigmoids(senders, t->beliefs + (b * N + n) * side, one, zero);
            memset(sender, 0, sizeof(real) * senders);
            (visible ? back_to_hidden : back_to_visible)(t, b, one, zero, e, receiver, g, sender, d_W);
            real *to = !visible ? d_bias : n ? d_hidden_bias : d_start;
            for (integer i = 0; i < (visible ? t->units : n_free); i++) to[i] += sender[i];
            real *swap = sender;
            sender = receiver;
            receiver = swap;
        }
    }
    return 0;
}
