/* Layers of the grid MRF and their trace. */

#include "grid.h"

EXPORT const field grid_layout[] = {
    FIELD(grid_task, height), FIELD(grid_task, width), FIELD(grid_task, states), FIELD(grid_task, padded),
    FIELD(grid_task, layers), FIELD(grid_task, contour), FIELD(grid_task, out), FIELD(grid_task, within),
    FIELD(grid_task, small), FIELD(grid_task, damping), FIELD(grid_task, settled), FIELD(grid_task, negligible),
    FIELD(grid_task, potential), FIELD(grid_task, transposed),
    FIELD(grid_task, evidence), FIELD(grid_task, belief_evidence), FIELD(grid_task, depths), FIELD(grid_task, n_depths),
    FIELD(grid_task, labels), FIELD(grid_task, shares), FIELD(grid_task, residual), FIELD(grid_task, messages),
    FIELD(grid_task, scale),
    FIELD(grid_task, slots), FIELD(grid_task, keep), FIELD(grid_task, rounded), FIELD(grid_task, d_labels),
    FIELD(grid_task, d_evidence), FIELD(grid_task, d_potential), FIELD(grid_task, scratch),
    FIELD(grid_task, scratch_size),
    FIELD(grid_task, stop), END(grid_task)};

EXPORT integer grid_can_round(void) { return CAN_ROUND; }

/* Cavities of a row, one product, the label rows, one pixel; which messages change and which are wanted, in bytes; a
   row's arrivals; tables and rows as pairs, each of a number's size. */
EXPORT integer grid_forward_scratch(const grid_task *t) {
    return 10 * row_size(t) + (8 * 3 + 1) * t->padded + 4 * t->height * t->width + 8 * t->width + rounded_size(t);
}
EXPORT integer grid_trace_scratch(const grid_task *t) { return grid_forward_scratch(t); }

static void uniform(const grid_task *t, real *messages) {
    const integer S = t->padded, rows = 8 * t->height * t->width;
    for (integer i = 0; i < rows; i++)
        for (integer s = 0; s < S; s++) messages[i * S + s] = s < t->states ? 1 : 0;
}

/* The same for all pixels of an image. */
static void image_labels(const grid_task *t, const real *messages, const real *evidence, real *labels, real *shares) {
    const integer S = t->padded, pixels = t->height * t->width;
    for (integer pixel = 0; pixel < pixels; pixel++) {
        const real *m[8];
        for (int k = 0; k < 8; k++) m[k] = messages + (k * pixels + pixel) * S;
        pixel_labels(t, m, evidence + pixel * 3, labels + pixel * 3, shares ? shares + pixel * S : NULL);
    }
}

/* Potentials summed over each label's clones, by direction [3, padded]: at first a label's clones all send the same. */
static void add_label_rows(const grid_task *t, real *rows) {
    const integer S = t->padded;
    memset(rows, 0, sizeof(real) * 8 * 3 * S);
    for (int d = 0; d < 8; d++) {
        const real *row = t->potential + d * t->states * S;
        for (int l = 0; l < 3; l++)
            for (integer c = 0; c < clones(t, l); c++, row += S)
                for (integer s = 0; s < S; s++) rows[(d * 3 + l) * S + s] += row[s];
    }
}

/* Where the parts of a forward pass's scratch memory begin. */
typedef struct {
    real *product, *label_rows, *u;
    pair *tables, *pairs;
    char *changed, *wanted; /* of each message, by where it arrives [8, pixels]: whether the last layer changed it */
    row_of_messages row;
} forward_scratch;

static forward_scratch share_forward(const grid_task *t, real *start) {
    const integer pixels = t->height * t->width;
    forward_scratch s = {.row.cavities = start};
    s.product = start + 8 * row_size(t);
    s.label_rows = s.product + row_size(t);
    s.u = s.label_rows + 8 * 3 * t->padded;
    s.pairs = (pair *)(s.u + t->padded);
    s.row.arrival = (int *)(s.u + t->padded + row_size(t));
    s.changed = (char *)(s.row.arrival + 8 * t->width);
    s.wanted = s.changed + 8 * pixels;
    s.tables = (pair *)(s.wanted + 8 * pixels);
    return s;
}

/* (1 − d)·new + d·old of log-messages. */
static void damp(const grid_task *t, const real *old, real *message) {
    const real d = (real)t->damping;
    SIMD for (integer s = 0; s < t->states; s++)
        message[s] = fast_exp((1 - d) * fast_log(message[s]) + d * fast_log(old[s]));
}

/* An unscaled message arrives: scaled to an average of 1, and damped. Returns whether it differs from the old one; if
   not, the caller keeps the old one, so that small changes do not add up. */
static int deliver(const grid_task *t, const real *from, const real *old, real *message, real *scale, real limit) {
    const integer S = t->padded;
    vec sum = {0};
    for (integer s = 0; s < S; s += LANES) sum += *(const vec *)(from + s);
    const real factor = (real)t->states / sum_lanes(sum);
    for (integer s = 0; s < S; s += LANES) *(vec *)(message + s) = *(const vec *)(from + s) * factor;
    if (t->damping > 0) damp(t, old, message);
    *scale = factor;
    for (integer s = 0; s < S; s += LANES) {
        const vec before = *(const vec *)(old + s), difference = *(const vec *)(message + s) - before;
        if (!all_lanes(larger(difference, -difference) <= before * limit)) return 1;
    }
    return 0;
}

/* Which messages the next layer has to make: those of pixels at which another one has changed (and, where they are
   damped, those that have changed themselves). */
static void want(const grid_task *t, const char *changed, char *wanted) {
    const integer pixels = t->height * t->width;
    for (integer y = 0; y < t->height; y++)
        for (integer x = 0; x < t->width; x++) {
            int total = 0;
            for (int k = 0; k < 8; k++) total += changed[k * pixels + y * t->width + x];
            for (int d = 0; d < 8; d++) {
                const int to = receiver(t, y, x, d);
                if (to < 0) continue;
                const int others = total - changed[(d ^ 1) * pixels + y * t->width + x];
                wanted[to] = others > 0 || (t->damping > 0 && changed[to]);
            }
        }
}

/* The first layer, from the evidence alone. */
static void first_layer(const grid_task *t, const real *evidence, const real *old, real *new, real *scale,
                        const forward_scratch *s) {
    const integer S = t->padded;
    for (integer y = 0; y < t->height; y++)
        for (int d = 0; d < 8; d++) {
            if (y - DOWN[d] < 0 || y - DOWN[d] >= t->height) continue;
            multiply(t->width, 3, evidence + y * t->width * 3, 3, 1, s->label_rows + d * 3 * S, s->product, S, 0);
            for (integer x = 0; x < t->width; x++) {
                const int to = receiver(t, y, x, d);
                if (to >= 0) deliver(t, s->product + x * S, old + to * S, new + to * S, scale + to, 0);
            }
        }
    memset(s->changed, 0, 8 * t->height * t->width);
    for (integer y = 0; y < t->height; y++) /* nothing comes from outside, and that never changes */
        for (integer x = 0; x < t->width; x++)
            for (int d = 0; d < 8; d++) {
                const int to = receiver(t, y, x, d);
                if (to >= 0) s->changed[to] = 1;
            }
}

/* All messages of a later layer; those that could not have changed are copied. */
static void grid_layer(const grid_task *t, const real *evidence, const real *old, const real *old_scale, real *new,
                       real *scale, forward_scratch *s) {
    const integer S = t->padded, W = t->width, messages = 8 * t->height * W;
    const real limit = (real)(t->settled * (1 - t->damping));
    want(t, s->changed, s->wanted);
    memset(s->changed, 0, messages);
    for (integer y = 0; y < t->height; y++) {
        gather_row(t, evidence, old, s->wanted, y, &s->row, s->u);
        for (int d = 0; d < 8; d++) {
            const real *cavities = s->row.cavities + d * row_size(t);
            if (!s->row.count[d]) continue;
            through_table(t, s->row.count[d], cavities, t->potential, s->tables, d, s->product, s->pairs);
            for (integer i = 0; i < s->row.count[d]; i++) {
                const int to = s->row.arrival[d * W + i];
                s->changed[to] = (char)deliver(t, s->product + i * S, old + to * S, new + to * S, scale + to, limit);
            }
        }
    }
    for (integer to = 0; to < messages; to++)
        if (!s->changed[to]) {
            memcpy(new + to * S, old + to * S, sizeof(real) * S);
            scale[to] = old_scale[to];
        }
}

/* Layer n + 1 of image b, with the messages of an image in turn in its slots, `base`. */
static void next_layer(const grid_task *t, integer b, integer n, real *base, real *scales,
                       forward_scratch *scratch) {
    const integer pixels = t->height * t->width, size = message_size(t), to = (n + 1) % t->slots;
    if (n < t->slots - 1) uniform(t, base + to * size); /* what comes from outside the grid stays so */
    const real *evidence = t->evidence + b * pixels * 3, *old = base + n % t->slots * size;
    real *scale = scales + to * 8 * pixels;
    if (n == 0) first_layer(t, evidence, old, base + to * size, scale, scratch);
    else grid_layer(t, evidence, old, scales + n % t->slots * 8 * pixels, base + to * size, scale, scratch);
}

EXPORT int grid_forward(const grid_task *t, integer first, integer last, integer thread) {
    const integer pixels = t->height * t->width, size = message_size(t);
    forward_scratch scratch = share_forward(t, t->scratch + thread * t->scratch_size);
    round_tables(t, t->potential, scratch.tables);
    add_label_rows(t, scratch.label_rows);
    for (integer b = first; b < last; b++) {
        const integer place = t->keep ? b : thread;
        real *base = t->messages + place * t->slots * size, *scales = t->scale + place * t->slots * 8 * pixels;
        uniform(t, base);
        for (integer n = 0, k = 0; n < t->layers; n++) {
            if (t->stop) return STOPPED;
            next_layer(t, b, n, base, scales, &scratch);
            if (n + 1 != t->depths[k]) continue;
            image_labels(t, base + (n + 1) % t->slots * size, t->belief_evidence + b * pixels * 3,
                         t->labels + (b * t->n_depths + k++) * pixels * 3, NULL);
        }
    }
    return 0;
}

/* The largest change of a message of one layer: of the log-odds of two of its states. */
static real largest_change(const grid_task *t, const real *old, const real *new) {
    const integer S = t->padded, rows = 8 * t->height * t->width;
    double most = 1;
    for (integer i = 0; i < rows; i++) {
        vec low = *(const vec *)(new + i * S) / *(const vec *)(old + i * S), high = low;
        for (integer s = LANES; s < S; s += LANES) {
            const vec ratio = *(const vec *)(new + i * S + s) / *(const vec *)(old + i * S + s);
            low = smaller(ratio, low), high = larger(ratio, high); /* 0/0 in the padding is neither */
        }
        const double change = (double)largest_lane(high) / (double)smallest_lane(low);
        most = change > most ? change : most;
    }
    return (real)log(most);
}

EXPORT int grid_trace(const grid_task *t, integer first, integer last, integer thread) {
    const integer pixels = t->height * t->width, size = message_size(t);
    forward_scratch scratch = share_forward(t, t->scratch + thread * t->scratch_size);
    real *base = t->messages + thread * t->slots * size, *scales = t->scale + thread * t->slots * 8 * pixels;
    round_tables(t, t->potential, scratch.tables);
    add_label_rows(t, scratch.label_rows);
    for (integer b = first; b < last; b++) {
        uniform(t, base);
        for (integer n = 0; n < t->layers; n++) {
            if (t->stop) return STOPPED;
            const integer layer = b * t->layers + n;
            next_layer(t, b, n, base, scales, &scratch);
            const real *old = base + n % t->slots * size, *new = base + (n + 1) % t->slots * size;
            t->residual[layer] = largest_change(t, old, new);
            image_labels(t, new, t->belief_evidence + b * pixels * 3, t->labels + layer * pixels * 3,
                         t->shares + layer * pixels * t->padded);
        }
    }
    return 0;
}
