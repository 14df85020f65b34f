/* Layers of the grid MRF, their gradient, and their trace.

   Messages between categorical pixels in linear space: a message is the product of the cavity with exp(potential), a
   matrix product for a row of pixels at a time. Message d at a pixel is what arrives from its neighbour in direction d;
   the message that goes the other way along that edge is d ^ 1. Messages are scaled to an average of 1 (`scale` keeps
   by how much), and products of eight of them that would vanish in this data type are redone in double. Gradients are
   those of log-messages. Where the processor can, the matrix products may take rounded factors (bfloat16, of the same
   range as float); and gradients may be left out that are small beside others (`negligible`). */

#include "matmul.h"

static const int DOWN[8] = {-1, 1, 0, 0, -1, 1, 1, -1}, RIGHT[8] = {0, 0, -1, 1, -1, 1, -1, 1};

typedef struct {
    integer height, width, states, padded, layers; /* S; S rounded up to whole vectors; N */
    integer contour, out, within;                  /* clones of the three labels; their sum is S */
    double small;                                  /* a smaller product of messages may have lost states that count */
    double damping;                                /* weight of the old log-message in the new one; 0: none */
    double negligible; /* gradients of messages below this share of an image's largest in a layer are left out; 0: none */
    const real *potential, *transposed; /* exp(log-potential) by direction [8, S, padded]; source and sink swapped */
    const real *evidence;               /* of the three labels, largest 1 [B, pixels, 3] */
    const real *belief_evidence;        /* what enters the beliefs [B, pixels, 3] */
    const integer *depths;              /* after which layers beliefs are asked for, in rising order; the last is N */
    integer n_depths;                   /* D; in a trace the depths do not matter, and D is N */
    real *labels;                       /* log-beliefs [B, D, pixels, 3] */
    real *shares;                       /* of a trace: a state's part of its label's belief [B, N, pixels, padded] */
    real *residual;                     /* of a trace: the largest change of a message, in log-odds [B, N] */
    real *messages, *scale;             /* [places, slots, 8, pixels, padded], [places, slots, 8, pixels] */
    integer slots, keep;                /* keep: all N layers of every image; else 2 slots in turn for each thread */
    integer rounded;                    /* whether the matrix products take bfloat16 */
    const real *d_labels;               /* gradient of the log-beliefs [B, D, pixels, 3] */
    real *d_evidence, *d_potential;     /* added to: of log-evidence [B, pixels, 3]; of the exponentiated potentials,
                                           one for each thread [threads, 8, S, padded] */
    real *scratch;                      /* [threads, scratch_size] */
    integer scratch_size;
    volatile integer stop; /* not 0 when the caller wants no answer any more */
} grid_task;

EXPORT const field grid_layout[] = {
    FIELD(grid_task, height), FIELD(grid_task, width), FIELD(grid_task, states), FIELD(grid_task, padded),
    FIELD(grid_task, layers), FIELD(grid_task, contour), FIELD(grid_task, out), FIELD(grid_task, within),
    FIELD(grid_task, small), FIELD(grid_task, damping), FIELD(grid_task, negligible),
    FIELD(grid_task, potential), FIELD(grid_task, transposed),
    FIELD(grid_task, evidence), FIELD(grid_task, belief_evidence), FIELD(grid_task, depths), FIELD(grid_task, n_depths),
    FIELD(grid_task, labels), FIELD(grid_task, shares), FIELD(grid_task, residual), FIELD(grid_task, messages),
    FIELD(grid_task, scale),
    FIELD(grid_task, slots), FIELD(grid_task, keep), FIELD(grid_task, rounded), FIELD(grid_task, d_labels),
    FIELD(grid_task, d_evidence), FIELD(grid_task, d_potential), FIELD(grid_task, scratch),
    FIELD(grid_task, scratch_size),
    FIELD(grid_task, stop), END(grid_task)};

EXPORT integer grid_can_round(void) { return CAN_ROUND; }

static integer message_size(const grid_task *t) { return 8 * t->height * t->width * t->padded; }
static integer row_size(const grid_task *t) { return t->width * t->padded; }
static integer rounded_size(const grid_task *t) { return t->rounded ? 8 * ((t->states + 1) / 2) * t->padded : 0; }

/* Cavities of a row, one product, the label rows, one pixel; tables and rows as pairs, each of a number's size. */
EXPORT integer grid_forward_scratch(const grid_task *t) {
    return 10 * row_size(t) + (8 * 3 + 1) * t->padded + rounded_size(t);
}
EXPORT integer grid_trace_scratch(const grid_task *t) { return grid_forward_scratch(t); }
/* Cavities, ratios and their gradients of a row; all messages' gradients, twice, and their sizes; one pixel; tables, rows
   as pairs. */
EXPORT integer grid_backward_scratch(const grid_task *t) {
    return 26 * row_size(t) + 2 * message_size(t) + 8 * t->height * t->width + 4 * t->padded + rounded_size(t);
}

static inline integer clones(const grid_task *t, int label) {
    return label == 0 ? t->contour : label == 1 ? t->out : t->within;
}

/* Evidence of every state of one pixel, from that of its three labels. */
static void spread(const grid_task *t, const real *labels, real *u) {
    integer s = 0;
    for (int l = 0; l < 3; l++)
        for (integer c = 0; c < clones(t, l); c++) u[s++] = labels[l];
    for (; s < t->padded; s++) u[s] = 0;
}

typedef __typeof__((vec){0} < (vec){0}) mask; /* integers: all bits of a lane set, or none */
static inline vec smaller(vec a, vec b) {
    mask which = a < b;
    return (vec)((which & (mask)a) | (~which & (mask)b));
}

static inline vec larger(vec a, vec b) {
    mask which = a > b;
    return (vec)((which & (mask)a) | (~which & (mask)b));
}

static inline real smallest_lane(vec x) {
    real least = x[0];
    for (int i = 1; i < LANES; i++) least = x[i] < least ? x[i] : least;
    return least;
}

static inline real largest_lane(vec x) {
    real top = x[0];
    for (int i = 1; i < LANES; i++) top = x[i] > top ? x[i] : top;
    return top;
}

static inline real sum_lanes(vec x) {
    real sum = 0;
    for (int i = 0; i < LANES; i++) sum += x[i];
    return sum;
}

/* One cavity once more, in double and scaled to a largest entry of 1. */
static void cavity_in_double(const grid_task *t, const real *u, const real *const *m, int left_out, real *cavity) {
    double most = 0;
    for (int pass = 0; pass < 2; pass++)
        for (integer s = 0; s < t->states; s++) {
            double c = u[s];
            for (int i = 0; i < 8; i++)
                if (i != left_out) c *= m[i][s];
            if (pass) cavity[s] = (real)(c / most);
            else most = c > most ? c : most;
        }
}

/* What one pixel sends in each of the 8 directions: evidence times all that arrived, but for what came from there.
   m[k] are the arriving messages, cavity[k] leaves out m[k]: prefix products times suffix products, no division. */
static void all_but_one(const grid_task *t, const real *u, const real *const *m, real *const *cavity) {
    vec sum[8] = {{0}};
    for (integer s = 0; s < t->padded; s += LANES) {
        vec in[8], after[8], before = *(const vec *)(u + s);
        for (int k = 0; k < 8; k++) in[k] = *(const vec *)(m[k] + s);
        after[7] = in[7];
        for (int k = 6; k > 0; k--) after[k] = in[k] * after[k + 1];
        for (int k = 0; k < 8; k++) {
            vec c = before;
            if (k < 7) c *= after[k + 1];
            *(vec *)(cavity[k] + s) = c;
            sum[k] += c;
            before *= in[k];
        }
    }
    vec witness = sum[0]; /* a lane that is large enough in all eight is the usual case */
    for (int k = 1; k < 8; k++) witness = smaller(witness, sum[k]);
    if (largest_lane(witness) > (real)t->small) return;
    for (int k = 0; k < 8; k++)
        if (!(largest_lane(sum[k]) > (real)t->small)) cavity_in_double(t, u, m, k, cavity[k]);
}

/* Cavities of pixel x of a row, cavities[d] = [width, padded] for sending what arrives from direction d; u: one pixel. */
static void pixel_cavities(const grid_task *t, const real *evidence, const real *messages, integer y, integer x,
                           real *cavities, real *u) {
    const integer pixels = t->height * t->width, pixel = y * t->width + x;
    const real *m[8];
    real *cavity[8];
    for (int k = 0; k < 8; k++) {
        m[k] = messages + (k * pixels + pixel) * t->padded;
        cavity[k] = cavities + ((k ^ 1) * t->width + x) * t->padded;
    }
    spread(t, evidence + pixel * 3, u);
    all_but_one(t, u, m, cavity);
}

static void uniform(const grid_task *t, real *messages) {
    const integer S = t->padded, rows = 8 * t->height * t->width;
    for (integer i = 0; i < rows; i++)
        for (integer s = 0; s < S; s++) messages[i * S + s] = s < t->states ? 1 : 0;
}

/* log Σ over a label's clones of the product of all that arrives, times the label's evidence; and, when asked, each
   clone's share of that sum. */
static void pixel_labels(const grid_task *t, const real *const *m, const real *evidence, real *labels, real *share) {
    integer s = 0;
    for (int l = 0; l < 3; l++) {
        double total = 0;
        integer start = s;
        for (integer c = 0; c < clones(t, l); c++, s++) {
            double product = m[0][s];
            for (int k = 1; k < 8; k++) product *= m[k][s];
            total += product;
        }
        if (labels) labels[l] = (real)(log(total) + log((double)evidence[l]));
        if (share)
            for (integer i = start; i < s; i++) {
                double product = m[0][i];
                for (int k = 1; k < 8; k++) product *= m[k][i];
                share[i] = (real)(product / total);
            }
    }
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

/* The tables of all directions as pairs across their rows, where products are rounded. */
static void round_tables(const grid_task *t, const real *tables, pair *out) {
    if (!t->rounded) return;
    const integer size = (t->states + 1) / 2 * t->padded;
    for (int d = 0; d < 8; d++) round_across(t->states, t->padded, tables + d * t->states * t->padded, out + d * size);
}

/* `count` rows of numbers [padded] times the table of direction d; `pairs` has room for the rows. */
static void through_table(const grid_task *t, integer count, const real *rows, const real *tables,
                          const pair *rounded_tables, int d, real *out, pair *pairs) {
    const integer S = t->padded, half = (t->states + 1) / 2;
    if (!t->rounded) {
        multiply(count, t->states, rows, S, 1, tables + d * t->states * S, out, S, 0);
        return;
    }
    round_along(count * S, rows, pairs);
    multiply_pairs(count, half, pairs, S / 2, 1, rounded_tables + d * half * S, out, S, 0);
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
    real *cavities, *product, *label_rows, *u;
    pair *tables, *pairs;
} forward_scratch;

static forward_scratch share_forward(const grid_task *t, real *start) {
    forward_scratch s = {.cavities = start};
    s.product = s.cavities + 8 * row_size(t);
    s.label_rows = s.product + row_size(t);
    s.u = s.label_rows + 8 * 3 * t->padded;
    s.pairs = (pair *)(s.u + t->padded);
    s.tables = (pair *)(s.u + t->padded + row_size(t));
    return s;
}

/* (1 − d)·new + d·old of log-messages. */
static void damp(const grid_task *t, const real *old, real *message) {
    const real d = (real)t->damping;
    SIMD for (integer s = 0; s < t->states; s++)
        message[s] = fast_exp((1 - d) * fast_log(message[s]) + d * fast_log(old[s]));
}

/* What row y sends in direction d arrives at the neighbours, scaled to an average of 1, and damped. */
static void deliver_row(const grid_task *t, integer y, int d, const real *product, const real *old, real *new,
                        real *scale) {
    const integer S = t->padded, pixels = t->height * t->width;
    for (integer x = 0; x < t->width; x++) {
        const integer to_x = x - RIGHT[d];
        if (to_x < 0 || to_x >= t->width) continue;
        const integer to = d * pixels + (y - DOWN[d]) * t->width + to_x;
        const real *from = product + x * S;
        real *message = new + to * S;
        vec sum = {0};
        for (integer s = 0; s < S; s += LANES) sum += *(const vec *)(from + s);
        const real factor = (real)t->states / sum_lanes(sum);
        for (integer s = 0; s < S; s += LANES) *(vec *)(message + s) = *(const vec *)(from + s) * factor;
        if (t->damping > 0) damp(t, old + to * S, message);
        scale[to] = factor;
    }
}

/* All messages of one layer from the old ones, or from the evidence alone in the first layer. */
static void grid_layer(const grid_task *t, const real *evidence, const real *old, real *new, real *scale, int is_first,
                       const forward_scratch *s) {
    const integer S = t->padded;
    for (integer y = 0; y < t->height; y++) {
        for (integer x = 0; x < t->width && !is_first; x++) pixel_cavities(t, evidence, old, y, x, s->cavities, s->u);
        for (int d = 0; d < 8; d++) {
            if (y - DOWN[d] < 0 || y - DOWN[d] >= t->height) continue;
            if (is_first)
                multiply(t->width, 3, evidence + y * t->width * 3, 3, 1, s->label_rows + d * 3 * S, s->product, S, 0);
            else through_table(t, t->width, s->cavities + d * row_size(t), t->potential, s->tables, d, s->product, s->pairs);
            deliver_row(t, y, d, s->product, old, new, scale);
        }
    }
}

/* Layer n + 1 of image b, with the messages of an image in turn in its slots, `base`. */
static void next_layer(const grid_task *t, integer b, integer n, real *base, real *scales,
                       const forward_scratch *scratch) {
    const integer pixels = t->height * t->width, size = message_size(t), to = (n + 1) % t->slots;
    if (n < t->slots - 1) uniform(t, base + to * size); /* what comes from outside the grid stays so */
    grid_layer(t, t->evidence + b * pixels * 3, base + n % t->slots * size, base + to * size, scales + to * 8 * pixels,
               n == 0, scratch);
}

EXPORT int grid_forward(const grid_task *t, integer first, integer last, integer thread) {
    const integer pixels = t->height * t->width, size = message_size(t);
    const forward_scratch scratch = share_forward(t, t->scratch + thread * t->scratch_size);
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
    const forward_scratch scratch = share_forward(t, t->scratch + thread * t->scratch_size);
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

/* Where the parts of a backward pass's scratch memory begin. */
typedef struct {
    real *cavities, *ratio, *d_cavity; /* by direction [width, padded] */
    real *u, *g, *g_before;            /* one pixel; gradients of log-messages */
    real *largest;                     /* the largest entry of each of these gradients */
    pair *tables, *pairs;
} backward_scratch;

static backward_scratch share_backward(const grid_task *t, real *start) {
    backward_scratch s = {.cavities = start};
    s.ratio = s.cavities + 8 * row_size(t);
    s.d_cavity = s.ratio + 8 * row_size(t);
    s.g = s.d_cavity + 8 * row_size(t);
    s.g_before = s.g + message_size(t);
    s.largest = s.g_before + message_size(t);
    s.u = s.largest + 8 * t->height * t->width;
    s.pairs = (pair *)(s.u + t->padded); /* two rows of pixels, each with one more where their number is odd */
    s.tables = (pair *)(s.u + 4 * t->padded + 2 * row_size(t));
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

/* Sizes of the gradients of all messages of a layer; returns which of them are negligible: those up to this. */
static real negligible(const grid_task *t, const real *g, real *largest) {
    const integer S = t->padded, rows = 8 * t->height * t->width;
    real most = 0;
    if (t->negligible == 0) return -1;
    for (integer i = 0; i < rows; i++) {
        vec top = {0};
        for (integer s = 0; s < S; s += LANES) {
            const vec x = *(const vec *)(g + i * S + s);
            top = larger(larger(x, -x), top);
        }
        largest[i] = largest_lane(top);
        if (largest[i] > most) most = largest[i];
    }
    return most * (real)t->negligible;
}

/* The message that pixel x of row y sends in direction d, where it arrives; −1 outside the grid. */
static integer receiver(const grid_task *t, integer y, integer x, int d) {
    const integer to_y = y - DOWN[d], to_x = x - RIGHT[d];
    const int inside = to_y >= 0 && to_y < t->height && to_x >= 0 && to_x < t->width;
    return inside ? (d * t->height + to_y) * t->width + to_x : -1;
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

/* One layer backwards: from the gradients g of its log-messages to those of the layer before. Of each row of pixels only
   those count whose messages have gradients, in each direction; they are gathered to the left. */
static void back_layer(const grid_task *t, integer b, integer n, const backward_scratch *scratch, real *d_potential) {
    const integer S = t->padded, W = t->width, pixels = t->height * W, size = message_size(t), row = row_size(t);
    const real *old = t->messages + (b * t->slots + n) * size, *new = old + size;
    const real *scale = t->scale + (b * t->slots + n + 1) * 8 * pixels;
    const real *evidence = t->evidence + b * pixels * 3;
    const real limit = negligible(t, scratch->g, scratch->largest);
    for (integer y = 0; y < t->height; y++) {
        integer count[8] = {0};
        for (integer x = 0; x < W; x++) {
            int any = 0;
            for (int d = 0; d < 8; d++) {
                const integer to = receiver(t, y, x, d);
                if (to < 0 || (limit >= 0 && scratch->largest[to] <= limit)) continue;
                if (!any++) pixel_cavities(t, evidence, old, y, x, scratch->cavities, scratch->u);
                real *c = scratch->cavities + d * row, *r = scratch->ratio + d * row;
                const integer place = count[d]++;
                if (place < x) memcpy(c + place * S, c + x * S, sizeof(real) * S);
                unscaled(t, to, scratch->g, old, new, scale, r + place * S, scratch->u);
            }
        }
        for (int d = 0; d < 8; d++) {
            real *r = scratch->ratio + d * row, *dc = scratch->d_cavity + d * row;
            const real *c = scratch->cavities + d * row;
            if (!count[d]) continue;
            through_table(t, count[d], r, t->transposed, scratch->tables, d, dc, scratch->pairs);
            add_outer(t, count[d], c, r, d_potential + d * t->states * S, scratch->pairs);
            SIMD for (integer i = 0; i < count[d] * S; i++) dc[i] *= c[i];
            count[d] = 0;
        }
        for (integer x = 0; x < W; x++) {
            const integer pixel = y * W + x;
            const real *d_cavity[8];
            for (int d = 0; d < 8; d++) {
                const integer to = receiver(t, y, x, d);
                const int counts = to >= 0 && !(limit >= 0 && scratch->largest[to] <= limit);
                d_cavity[d] = counts ? scratch->d_cavity + d * row + count[d]++ * S : NULL;
            }
            back_to_messages(t, pixel, d_cavity, scratch, t->d_evidence + (b * pixels + pixel) * 3);
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
