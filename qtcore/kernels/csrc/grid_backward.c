/* The gradient of the grid MRF's layers. */

#include "grid.h"

/* Cavities, ratios and their gradients of a row; all messages' gradients, twice, and which of them count, in bytes; one
   pixel; a row's arrivals; tables, rows as pairs. */
EXPORT integer grid_backward_scratch(const grid_task *t) {
    const integer wanted = 2 * t->height * t->width, arrivals = 8 * t->width;
    return 26 * row_size(t) + 2 * message_size(t) + wanted + 4 * t->padded + arrivals + rounded_size(t);
}

/* Adds the products of all states of some pixels [count, padded] with those of others, summed over the pixels. */
static void add_outer(const grid_task *t, integer count, const real *left, const real *right, real *sum, pair *pairs) {
    const integer S = t->padded, half = (count + 1) / 2;
    if (!t->rounded) {
        multiply(t->states, count, left, 1, S, right, sum, S, 1);
        return;
    }
    round_across(count, S, left, pairs);
    round_across(count, S, right, pairs + half * S);
    multiply_pairs(t->states, half, pairs, 1, S, pairs + half * S, sum, S, 1);
}

/* Where the parts of a backward pass's scratch memory begin. */
typedef struct {
    row_of_messages row;
    real *ratio, *d_cavity; /* by direction [8, width, padded] */
    real *u, *g, *g_before; /* one pixel; gradients of log-messages */
    char *wanted;           /* whether a message's gradient counts, by where it arrives [8, pixels] */
    pair *tables, *pairs;
} backward_scratch;

static backward_scratch share_backward(const grid_task *t, real *start) {
    backward_scratch s = {.row.cavities = start};
    s.ratio = start + 8 * row_size(t);
    s.d_cavity = s.ratio + 8 * row_size(t);
    s.g = s.d_cavity + 8 * row_size(t);
    s.g_before = s.g + message_size(t);
    s.u = s.g_before + message_size(t);
    s.pairs = (pair *)(s.u + t->padded); /* two rows of pixels, each with one more where their number is odd */
    s.row.arrival = (int *)(s.u + 4 * t->padded + 2 * row_size(t));
    s.wanted = (char *)(s.row.arrival + 8 * t->width);
    s.tables = (pair *)(s.wanted + 8 * t->height * t->width);
    return s;
}

/* Adds the gradients of a layer's log-messages, from those of the log-beliefs of the labels; share: one pixel. */
static void back_from_labels(const grid_task *t, const real *d_labels, const real *messages, real *share, real *g) {
    const integer S = t->padded, pixels = t->height * t->width;
    for (integer pixel = 0; pixel < pixels; pixel++) {
        const real *m[8], *gl = d_labels + pixel * 3;
        for (int k = 0; k < 8; k++) m[k] = messages + (k * pixels + pixel) * S;
        pixel_labels(t, m, NULL, NULL, share);
        integer s = 0;
        for (int l = 0; l < 3; l++)
            for (integer c = 0; c < clones(t, l); c++, s++) share[s] *= gl[l];
        for (; s < S; s++) share[s] = 0;
        for (int k = 0; k < 8; k++)
            for (integer i = 0; i < S; i++) g[(k * pixels + pixel) * S + i] += share[i];
    }
}

/* The message before it was damped. */
static void undamp(const grid_task *t, const real *old, const real *message, real *raw) {
    const real d = (real)t->damping, inverse = 1 / (1 - d);
    SIMD for (integer s = 0; s < t->states; s++)
        raw[s] = fast_exp((fast_log(message[s]) - d * fast_log(old[s])) * inverse);
    for (integer s = t->states; s < t->padded; s++) raw[s] = 0;
}

/* The gradient of the unscaled message behind message `to`; raw: one pixel. */
static void unscaled(const grid_task *t, integer to, const real *g, const real *old, const real *new, const real *scale,
                     real *out, real *raw) {
    const integer S = t->padded;
    const real *gradient = g + to * S, *message = new + to * S;
    const real factor = scale[to] * (real)(1 - t->damping);
    if (t->damping > 0) {
        undamp(t, old + to * S, message, raw);
        message = raw;
    }
    vec constant = {0}; /* what the scaling takes: 0 but for rounding, which would grow 7-fold per layer */
    for (integer s = 0; s < S; s += LANES) constant += *(const vec *)(gradient + s);
    const real mean = sum_lanes(constant) / (real)t->states;
    for (integer s = 0; s < S; s += LANES)
        *(vec *)(out + s) = factor * (*(const vec *)(gradient + s) / *(const vec *)(message + s) - mean);
    for (integer s = t->states; s < S; s++) out[s] = 0;
}

/* Which gradients of a layer's messages count: those above a share of the largest. */
static void want_gradients(const grid_task *t, const real *g, char *wanted, real *largest) {
    const integer S = t->padded, messages = 8 * t->height * t->width;
    real most = 0;
    memset(wanted, 1, messages);
    if (t->negligible == 0) return;
    for (integer i = 0; i < messages; i++) {
        vec top = {0};
        for (integer s = 0; s < S; s += LANES) {
            const vec x = *(const vec *)(g + i * S + s);
            top = larger(larger(x, -x), top);
        }
        largest[i] = largest_lane(top);
        if (largest[i] > most) most = largest[i];
    }
    for (integer i = 0; i < messages; i++) wanted[i] = largest[i] > most * (real)t->negligible;
}

/* From the gradients of a pixel's log-cavities, those of the log-messages before and of the log-evidence (added). */
static void back_to_messages(const grid_task *t, integer pixel, const real *const *d_cavity,
                             const backward_scratch *scratch, real *de) {
    const integer S = t->padded, pixels = t->height * t->width;
    real *total = scratch->u;
    for (integer s = 0; s < S; s += LANES) {
        vec sum = {0}, dc[8];
        for (int d = 0; d < 8; d++) sum += dc[d] = d_cavity[d] ? *(const vec *)(d_cavity[d] + s) : (vec){0};
        *(vec *)(total + s) = sum;
        for (int k = 0; k < 8; k++) {
            const integer at = (k * pixels + pixel) * S + s;
            vec gradient = sum - dc[k ^ 1];
            if (t->damping > 0) gradient += (real)t->damping * *(const vec *)(scratch->g + at);
            *(vec *)(scratch->g_before + at) = gradient;
        }
    }
    integer s = 0;
    for (int l = 0; l < 3; l++)
        for (integer c = 0; c < clones(t, l); c++) de[l] += total[s++];
}

/* One layer backwards: from the gradients g of its log-messages to those of the layer before. */
static void back_layer(const grid_task *t, integer b, integer n, backward_scratch *s, real *d_potential) {
    const integer S = t->padded, W = t->width, pixels = t->height * W, size = message_size(t), row = row_size(t);
    const real *old = t->messages + (b * t->slots + n) * size, *new = old + size;
    const real *scale = t->scale + (b * t->slots + n + 1) * 8 * pixels;
    want_gradients(t, s->g, s->wanted, s->g_before); /* which is not needed yet */
    for (integer y = 0; y < t->height; y++) {
        gather_row(t, t->evidence + b * pixels * 3, old, s->wanted, y, &s->row, s->u);
        for (int d = 0; d < 8; d++) {
            const integer count = s->row.count[d];
            const real *c = s->row.cavities + d * row;
            real *r = s->ratio + d * row, *dc = s->d_cavity + d * row;
            if (!count) continue;
            for (integer i = 0; i < count; i++)
                unscaled(t, s->row.arrival[d * W + i], s->g, old, new, scale, r + i * S, s->u);
            through_table(t, count, r, t->transposed, s->tables, d, dc, s->pairs);
            add_outer(t, count, c, r, d_potential + d * t->states * S, s->pairs);
            SIMD for (integer i = 0; i < count * S; i++) dc[i] *= c[i];
        }
        integer next[8] = {0};
        for (integer x = 0; x < W; x++) {
            const integer pixel = y * W + x;
            const real *d_cavity[8];
            for (int d = 0; d < 8; d++) {
                const int to = receiver(t, y, x, d);
                d_cavity[d] = to >= 0 && s->wanted[to] ? s->d_cavity + d * row + next[d]++ * S : NULL;
            }
            back_to_messages(t, pixel, d_cavity, s, t->d_evidence + (b * pixels + pixel) * 3);
        }
    }
}

EXPORT int grid_backward(const grid_task *t, integer first, integer last, integer thread) {
    const integer pixels = t->height * t->width, size = message_size(t);
    backward_scratch scratch = share_backward(t, t->scratch + thread * t->scratch_size);
    real *d_potential = t->d_potential + thread * 8 * t->states * t->padded;
    round_tables(t, t->transposed, scratch.tables);
    for (integer b = first; b < last; b++) {
        memset(scratch.g, 0, sizeof(real) * size);
        for (integer n = t->layers, k = t->n_depths - 1; n > 0; n--) {
            if (t->stop) return STOPPED;
            if (k >= 0 && n == t->depths[k]) {
                const real *given = t->d_labels + (b * t->n_depths + k--) * pixels * 3;
                back_from_labels(t, given, t->messages + (b * t->slots + n) * size, scratch.u, scratch.g);
            }
            back_layer(t, b, n - 1, &scratch, d_potential);
            real *swap = scratch.g;
            scratch.g = scratch.g_before;
            scratch.g_before = swap;
        }
    }
    return 0;
}
