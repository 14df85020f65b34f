/* Layers of the RBM and the DBM with the messages of both directions: damped layers and their gradient, and traces.

   With damping d every message is kept in part, m ← (1−d) f_w(cavity) + d m, so that the two directions depend on each
   other and binary.c's halving of the work does not apply; a trace shows both directions anyway. All variables take
   part, the clamped ones too: a clamped variable sends its constant ±w, also damped. Messages are kept as logs m; with
   e = exp(m), E = exp(w) and the odds b1 : b0 of the sender's belief, exp f_w(cavity) = (e b0 + E b1) / (E e b0 + b1)
   as in binary.c. Messages of a direction are [V, H]. */

#include "common.h"

typedef struct {
    integer hidden, units, rows, layers; /* H with and without padding; V; N */
    double damping;                      /* d */
    const real *W, *odds;                /* w and exp(w) [V, H], 0 and 1 where padded */
    const real *bias, *hard;             /* biases plus soft evidence; ±1 where clamped, else 0: [B, V] */
    const real *hidden_bias;             /* [units] */
    real *total;                         /* beliefs of the visible variables after the last layer [B, V] */
    real *states;                        /* for the backward pass, or NULL: messages after each layer [B, N, 2, V, H] */
    real *visible, *beliefs, *residual;  /* of a trace, or NULL: logits after each layer [B, N, V], [B, N, H], and the
                                            largest change of a message [B, N] */
    real *d_bias;                        /* gradient: of total on entry, of bias on return [B, V] */
    real *d_hidden_bias, *d_W;           /* added to, one for each thread: [threads, H], [threads, V, H] */
    real *scratch;                       /* [threads, scratch_size] */
    integer scratch_size;
    volatile integer stop; /* not 0 when the caller wants no answer any more */
} both_task;

EXPORT const field both_layout[] = {
    FIELD(both_task, hidden), FIELD(both_task, units), FIELD(both_task, rows), FIELD(both_task, layers),
    FIELD(both_task, damping), FIELD(both_task, W), FIELD(both_task, odds), FIELD(both_task, bias),
    FIELD(both_task, hard), FIELD(both_task, hidden_bias), FIELD(both_task, total), FIELD(both_task, states),
    FIELD(both_task, visible), FIELD(both_task, beliefs), FIELD(both_task, residual), FIELD(both_task, d_bias),
    FIELD(both_task, d_hidden_bias), FIELD(both_task, d_W), FIELD(both_task, scratch),
    FIELD(both_task, scratch_size),
    FIELD(both_task, stop), END(both_task)};

EXPORT integer both_forward_scratch(const both_task *t) {
    return 2 * t->rows * t->hidden + 3 * (t->rows + t->hidden) + t->hidden;
}
EXPORT integer both_backward_scratch(const both_task *t) { return 3 * t->rows * t->hidden + 4 * (t->rows + t->hidden); }

/* Beliefs of all variables and their odds one : zero, the visible ones first, then the hidden ones [V + H]. */
typedef struct {
    real *belief, *one, *zero;
} sides;

static sides sides_at(const both_task *t, real *start) {
    const integer length = t->rows + t->hidden;
    return (sides){start, start + length, start + 2 * length};
}

/* Beliefs from the messages to_hidden and to_visible: biases plus sums. */
static void believe(const both_task *t, integer b, const real *to_hidden, const real *to_visible, sides *s) {
    const integer H = t->hidden, V = t->rows;
    real *hidden = s->belief + V;
    copy_padded(hidden, t->hidden_bias, t->units, H);
    for (integer v = 0; v < V; v++) {
        const real *up = to_hidden + v * H, *down = to_visible + v * H;
        real sum = 0;
        SIMD for (integer h = 0; h < H; h++) {
            hidden[h] += up[h];
            sum += down[h];
        }
        s->belief[v] = t->bias[b * V + v] + sum;
    }
    sigmoids(V + H, s->belief, s->one, s->zero);
}

/* f_w of a cavity, given exp(w), the message m that is left out of it, and the odds of the sender's belief. */
static inline real passed_on(real E, real m, real one, real zero) {
    const real x = fast_exp(m) * zero;
    return fast_log((x + E * one) / (E * x + one));
}

/* One layer: the messages after it take the place of those before. `changes` gets the largest change of a message to
   or from each hidden unit [H]. */
static void one_layer(const both_task *t, integer b, const sides *s, real *to_hidden, real *to_visible, real *changes) {
    const integer H = t->hidden, V = t->rows;
    const real keep = (real)t->damping, *one_h = s->one + V, *zero_h = s->zero + V;
    memset(changes, 0, sizeof(real) * H);
    for (integer v = 0; v < V; v++) {
        const real *w = t->W + v * H, *E = t->odds + v * H, one = s->one[v], zero = s->zero[v];
        const real hard = t->hard[b * V + v];
        real *up = to_hidden + v * H, *down = to_visible + v * H;
        SIMD for (integer h = 0; h < H; h++) {
            real before_up = up[h], before_down = down[h];
            real sent = hard != 0 ? hard * w[h] : passed_on(E[h], before_down, one, zero);
            real returned = passed_on(E[h], before_up, one_h[h], zero_h[h]);
            up[h] = (1 - keep) * sent + keep * before_up;
            down[h] = (1 - keep) * returned + keep * before_down;
            real a = (real)fabs(up[h] - before_up), c = (real)fabs(down[h] - before_down);
            real change = a > c ? a : c;
            changes[h] = change > changes[h] ? change : changes[h];
        }
    }
}

static real largest_of(integer n, const real *numbers) {
    real largest = 0;
    for (integer i = 0; i < n; i++) largest = numbers[i] > largest ? numbers[i] : largest;
    return largest;
}

EXPORT int both_forward(const both_task *t, integer first, integer last, integer thread) {
    const integer H = t->hidden, V = t->rows, N = t->layers, size = V * H;
    real *to_hidden = t->scratch + thread * t->scratch_size, *to_visible = to_hidden + size;
    sides s = sides_at(t, to_visible + size);
    real *changes = s.zero + V + H;
    for (integer b = first; b < last; b++) {
        memset(to_hidden, 0, sizeof(real) * 2 * size); /* all messages start at 0 */
        believe(t, b, to_hidden, to_visible, &s);
        for (integer n = 0; n < N; n++) {
            if (t->stop) return STOPPED;
            one_layer(t, b, &s, to_hidden, to_visible, changes);
            believe(t, b, to_hidden, to_visible, &s);
            if (t->states) memcpy(t->states + (b * N + n) * 2 * size, to_hidden, sizeof(real) * 2 * size);
            if (t->visible) {
                memcpy(t->visible + (b * N + n) * V, s.belief, sizeof(real) * V);
                memcpy(t->beliefs + (b * N + n) * H, s.belief + V, sizeof(real) * H);
                t->residual[b * N + n] = largest_of(H, changes);
            }
        }
        if (t->total) memcpy(t->total + b * V, s.belief, sizeof(real) * V);
    }
    return 0;
}

/* Derivatives of f_w, by the cavity and by w. */
typedef struct {
    real by_cavity, by_weight;
} slopes;

static inline slopes slopes_of(real E, real m, real one, real zero) {
    const real x = fast_exp(m) * zero, over = (real)1 / ((x + E * one) * (E * x + one));
    return (slopes){x * one * (E * E - 1) * over, E * (one - x) * (one + x) * over};
}

/* One layer backwards. g_up and g_down have the gradients of the messages after it on entry, of those before it on
   return, but for what the beliefs pass on; that goes to d_belief [V + H]. */
static void back_layer(const both_task *t, integer b, const sides *s, const real *to_hidden, const real *to_visible,
                       real *g_up, real *g_down, real *d_belief, real *d_W) {
    const integer H = t->hidden, V = t->rows;
    const real keep = (real)t->damping, *one_h = s->one + V, *zero_h = s->zero + V;
    memset(d_belief, 0, sizeof(real) * (V + H));
    for (integer v = 0; v < V; v++) {
        const real *E = t->odds + v * H, *up = to_hidden + v * H, *down = to_visible + v * H;
        const real one = s->one[v], zero = s->zero[v], hard = t->hard[b * V + v], is_free = hard == 0;
        real *gu = g_up + v * H, *gd = g_down + v * H, *dw = d_W + v * H, *d_hidden = d_belief + V, sum = 0;
        SIMD for (integer h = 0; h < H; h++) {
            slopes sent = slopes_of(E[h], down[h], one, zero), returned = slopes_of(E[h], up[h], one_h[h], zero_h[h]);
            real Gu = (1 - keep) * gu[h], Gd = (1 - keep) * gd[h];
            real to_cavity = is_free * Gu * sent.by_cavity, back = Gd * returned.by_cavity;
            dw[h] += Gu * (is_free * sent.by_weight + hard) + Gd * returned.by_weight;
            sum += to_cavity;
            d_hidden[h] += back;
            gu[h] = keep * gu[h] - back;
            gd[h] = keep * gd[h] - to_cavity;
        }
        d_belief[v] = sum;
    }
}

/* The gradients of the beliefs go on to the biases and to all messages that were summed. */
static void back_to_messages(const both_task *t, integer b, const real *d_belief, real *g_up, real *g_down,
                             real *d_hidden_bias) {
    const integer H = t->hidden, V = t->rows;
    const real *d_hidden = d_belief + V;
    for (integer h = 0; h < H; h++) d_hidden_bias[h] += d_hidden[h];
    for (integer v = 0; v < V; v++) {
        real *gu = g_up + v * H, *gd = g_down + v * H, d = d_belief[v];
        t->d_bias[b * V + v] += d;
        SIMD for (integer h = 0; h < H; h++) {
            gu[h] += d_hidden[h];
            gd[h] += d;
        }
    }
}

EXPORT int both_backward(const both_task *t, integer first, integer last, integer thread) {
    const integer H = t->hidden, V = t->rows, N = t->layers, size = V * H;
    real *g_up = t->scratch + thread * t->scratch_size, *g_down = g_up + size, *zeros = g_down + size;
    real *d_belief = zeros + size;
    sides s = sides_at(t, d_belief + V + H);
    real *d_W = t->d_W + thread * size, *d_hidden_bias = t->d_hidden_bias + thread * H;
    memset(zeros, 0, sizeof(real) * size);
    for (integer b = first; b < last; b++) {
        memset(g_up, 0, sizeof(real) * size);
        for (integer v = 0; v < V; v++)
            for (integer h = 0; h < H; h++) g_down[v * H + h] = t->d_bias[b * V + v];
        for (integer n = N - 1; n >= 0; n--) {
            if (t->stop) return STOPPED;
            const real *before = n ? t->states + (b * N + n - 1) * 2 * size : NULL;
            const real *to_hidden = n ? before : zeros, *to_visible = n ? before + size : zeros;
            believe(t, b, to_hidden, to_visible, &s);
            back_layer(t, b, &s, to_hidden, to_visible, g_up, g_down, d_belief, d_W);
            back_to_messages(t, b, d_belief, g_up, g_down, d_hidden_bias);
        }
    }
    return 0;
}
