/* Layers of any factor graph whose tables have no zeros and a small range, and their gradient.

   Potentials are numbers, messages logs. With the messages x_b = exp(cavity) on the other axes of a factor's table,

       y_a(s) = Σ T(…, s, …) Π_{b≠a} x_b,   m ← (1−d) log(y_a / mean y_a) + d m,

   for all axes at once, one axis after the other from the last: the sum over axis j leaves a table of one axis less,
   T_{j−1}[p] = Σ_t T_j[p, t] x_j[t], and y_j[t] = Σ_p w_j[p] T_j[p, t] with the outer product w_j of all earlier x. So
   a table is read once, whatever its order.

   Factors of one shape form a group and are handled LANES at a time, one to each lane of a vector: a chunk of tables is
   [shape, LANES], a chunk of messages [axis, state, LANES]. A group may share one table; its chunk is then used by all.
   A state is what one layer leaves to the next: all messages, and their sums at each variable's states. */

#include "matmul.h"

#ifdef DOUBLE
typedef int64_t mask __attribute__((vector_size(VECTOR_BYTES)));
#else
typedef int32_t mask __attribute__((vector_size(VECTOR_BYTES)));
#endif

typedef real loose __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(real)), may_alias)); /* a vec anywhere */

enum { MAX_ORDER = 8 };
#define LARGEST_RANGE (real)62 /* of a table: no sum vanishes in float32 */

typedef struct {
    integer groups, total, messages, layers; /* number of groups, of all variables' states, of messages; N */
    double damping;                          /* d */
    const integer *shapes;   /* of each group: order, number of factors, whether each has its own table, shape */
    const real *logs;        /* log-potentials, table after table, group after group */
    real *tables;            /* the same as numbers, chunk after chunk; 1 in lanes without a factor */
    const int32_t *places;   /* where the states of each factor's variables begin, of each group [axis, factor] */
    const real *alone;       /* unaries plus evidence, −∞ for what is ruled out [B, total] */
    const integer *depths;   /* in rising order, the last is N [n_depths] */
    integer n_depths;
    real *sums;              /* of all messages to each state after these layers [B, n_depths, total] */
    real *residual;          /* the largest change of a message in each layer [B, N], or NULL */
    real *states;            /* before and after each layer [B, N + 1, messages + total], or of each thread the last */
    integer keep;            /* whether all of them are kept */
    const real *d_sums;      /* [B, n_depths, total] */
    real *d_alone;           /* [B, total] */
    real *d_tables;          /* added to, one for each thread, as tables */
    integer tables_size;
    real *scratch;           /* [threads, scratch_size] */
    integer scratch_size;
    volatile integer stop;
} factors_task;

EXPORT const field factors_layout[] = {
    FIELD(factors_task, groups), FIELD(factors_task, total), FIELD(factors_task, messages),
    FIELD(factors_task, layers), FIELD(factors_task, damping), FIELD(factors_task, shapes),
    FIELD(factors_task, logs), FIELD(factors_task, tables), FIELD(factors_task, places), FIELD(factors_task, alone),
    FIELD(factors_task, depths), FIELD(factors_task, n_depths), FIELD(factors_task, sums),
    FIELD(factors_task, residual), FIELD(factors_task, states), FIELD(factors_task, keep),
    FIELD(factors_task, d_sums), FIELD(factors_task, d_alone), FIELD(factors_task, d_tables),
    FIELD(factors_task, tables_size), FIELD(factors_task, scratch), FIELD(factors_task, scratch_size),
    FIELD(factors_task, stop), END(factors_task)};

/* A group of factors. */
typedef struct {
    integer order, count, own, shape[MAX_ORDER];
    integer row[MAX_ORDER];        /* where an axis begins among the states of all axes */
    integer before[MAX_ORDER + 1]; /* combinations of the states on all axes before this one */
    integer at[MAX_ORDER + 1];     /* where so many entries begin among those between the axes */
    integer rows, inner;           /* states of all axes, and entries between the axes */
} group;

static const integer *read_group(const integer *shapes, group *g) {
    g->order = shapes[0], g->count = shapes[1], g->own = shapes[2];
    g->rows = g->inner = 0;
    g->before[0] = 1;
    for (integer a = 0; a < g->order; a++) {
        g->shape[a] = shapes[3 + a];
        g->row[a] = g->rows;
        g->rows += g->shape[a];
        g->before[a + 1] = g->before[a] * g->shape[a];
        g->at[a] = g->inner;
        if (a >= 2) g->inner += g->before[a];
    }
    return shapes + 3 + g->order;
}

/* Vectors that a chunk needs: x, y and their gradients; w, T and their gradients between the axes. */
static integer chunk_vectors(const factors_task *t) {
    integer most = 0;
    const integer *shapes = t->shapes;
    group g;
    for (integer i = 0; i < t->groups; i++) {
        shapes = read_group(shapes, &g);
        integer vectors = 4 * (g.rows + g.inner);
        most = vectors > most ? vectors : most;
    }
    return most;
}
EXPORT integer factors_prepare_scratch(const factors_task *t) {
    (void)t;
    return 0;
}
EXPORT integer factors_forward_scratch(const factors_task *t) { return t->total + chunk_vectors(t) * LANES; }
EXPORT integer factors_backward_scratch(const factors_task *t) {
    return 3 * t->total + t->messages + chunk_vectors(t) * LANES;
}

/* The parts of a chunk's memory, axis after axis. */
typedef struct {
    vec *x, *y, *dx, *dy, *w, *T, *dw, *dT;
} chunk;

static chunk chunk_at(const group *g, real *memory) {
    vec *start = (vec *)memory;
    const integer R = g->rows, I = g->inner;
    return (chunk){start,         start + R,         start + 2 * R,         start + 3 * R,
                   start + 4 * R, start + 4 * R + I, start + 4 * R + 2 * I, start + 4 * R + 3 * I};
}

/* One axis: rows p of T [P, S], sums over it into `left` [P], and the messages to it y [S]. Two rows at a time, so that
   x and y are read half as often. */
static inline __attribute__((always_inline)) void pass_axis(integer P, integer S, const vec *T, const vec *x,
                                                            const vec *w, vec *restrict left, vec *restrict y) {
    for (integer s = 0; s < S; s++) y[s] = (vec){0};
    for (integer p = 0; p + 1 < P; p += 2) {
        const vec *row = T + p * S, *next = row + S;
        vec sum = {0}, next_sum = {0};
        for (integer s = 0; s < S; s++) {
            sum += row[s] * x[s], next_sum += next[s] * x[s];
            y[s] += w[p] * row[s] + w[p + 1] * next[s];
        }
        left[p] = sum, left[p + 1] = next_sum;
    }
    if (P % 2) {
        const vec *row = T + (P - 1) * S;
        vec sum = {0};
        for (integer s = 0; s < S; s++) {
            sum += row[s] * x[s];
            y[s] += w[P - 1] * row[s];
        }
        left[P - 1] = sum;
    }
}

/* The gradients of one axis: d_left [P] and dy [S] are given; d_T [P, S] is set, or added to. */
static inline __attribute__((always_inline)) void back_axis(integer P, integer S, const vec *T, const vec *x,
                                                            const vec *w, const vec *d_left, const vec *dy,
                                                            vec *restrict d_T, vec *restrict dx, vec *restrict dw,
                                                            int add) {
    memset(dx, 0, sizeof(vec) * S);
    for (integer p = 0; p < P; p++) {
        const vec *row = T + p * S, weight = w[p], d = d_left[p];
        vec *d_row = d_T + p * S, sum = {0};
        for (integer s = 0; s < S; s++) {
            sum += dy[s] * row[s];
            dx[s] += d * row[s];
            vec change = d * x[s] + weight * dy[s];
            if (add) change += d_row[s];
            d_row[s] = change;
        }
        dw[p] = sum;
    }
}

/* Messages y to all axes from x on all axes; w and T between the axes are left in the chunk. */
static void pass(const group *g, const vec *table, const chunk *c) {
    for (integer a = 2; a < g->order; a++) {
        const integer P = g->before[a - 1], S = g->shape[a - 1];
        const vec *w = a == 2 ? c->x : c->w + g->at[a - 1], *x = c->x + g->row[a - 1];
        vec *outer = c->w + g->at[a];
        for (integer p = 0; p < P; p++)
            for (integer s = 0; s < S; s++) outer[p * S + s] = w[p] * x[s];
    }
    const vec *T = table;
    for (integer a = g->order - 1; a >= 1; a--) {
        const integer P = g->before[a], S = g->shape[a];
        const vec *w = a == 1 ? c->x : c->w + g->at[a], *x = c->x + g->row[a];
        vec *left = a == 1 ? c->y : c->T + g->at[a], *y = c->y + g->row[a];
        switch (S) { /* the usual sizes with sums in registers */
        case 2: pass_axis(P, 2, T, x, w, left, y); break;
        case 3: pass_axis(P, 3, T, x, w, left, y); break;
        case 4: pass_axis(P, 4, T, x, w, left, y); break;
        case 8: pass_axis(P, 8, T, x, w, left, y); break;
        default: pass_axis(P, S, T, x, w, left, y);
        }
        T = left;
    }
}

/* dx from dy, after `pass`; the table's gradient is added to. */
static void pass_back(const group *g, const vec *table, vec *d_table, const chunk *c) {
    const integer k = g->order;
    const vec *d_left = c->dy;
    for (integer a = 1; a < k; a++) {
        const integer P = g->before[a], S = g->shape[a], last = a == k - 1;
        const vec *T = last ? table : c->T + g->at[a + 1], *w = a == 1 ? c->x : c->w + g->at[a];
        const vec *x = c->x + g->row[a], *dy = c->dy + g->row[a];
        vec *dT = last ? d_table : c->dT + g->at[a + 1], *dx = c->dx + g->row[a];
        vec *dw = a == 1 ? c->dx : c->dw + g->at[a];
        switch (last ? S : 0) {
        case 2: back_axis(P, 2, T, x, w, d_left, dy, dT, dx, dw, 1); break;
        case 3: back_axis(P, 3, T, x, w, d_left, dy, dT, dx, dw, 1); break;
        case 4: back_axis(P, 4, T, x, w, d_left, dy, dT, dx, dw, 1); break;
        case 8: back_axis(P, 8, T, x, w, d_left, dy, dT, dx, dw, 1); break;
        default: back_axis(P, S, T, x, w, d_left, dy, dT, dx, dw, (int)last);
        }
        d_left = dT;
    }
    for (integer a = k - 1; a >= 2; a--) { /* w_a[p, s] = w_{a−1}[p] x_{a−1}[s] */
        const integer P = g->before[a - 1], S = g->shape[a - 1];
        const vec *w = a == 2 ? c->x : c->w + g->at[a - 1], *x = c->x + g->row[a - 1], *d = c->dw + g->at[a];
        vec *dw = a == 2 ? c->dx : c->dw + g->at[a - 1], *dx = c->dx + g->row[a - 1];
        for (integer p = 0; p < P; p++)
            for (integer s = 0; s < S; s++) {
                dx[s] += d[p * S + s] * w[p];
                dw[p] += d[p * S + s] * x[s];
            }
    }
}

/* One number for each lane, made in a register: from memory that was just written number by number it would wait. */
static inline vec gather(const real *from, const int32_t *at) {
#ifdef DOUBLE
    return (vec){from[at[0]], from[at[1]], from[at[2]], from[at[3]]};
#else
    return (vec){from[at[0]], from[at[1]], from[at[2]], from[at[3]],
                 from[at[4]], from[at[5]], from[at[6]], from[at[7]]};
#endif
}

/* Vectors i of numbers j become vectors j of numbers i: blocks off the diagonal change places, ever smaller ones. */
#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define TRANSPOSES 1
#endif
#endif
#ifdef TRANSPOSES
#define EXCHANGE(half, first, second)                                             \
    for (integer i = 0; i < LANES; i++)                                           \
        if (!(i & (half))) {                                                      \
            const vec a = v[i], b = v[i + (half)];                                \
            v[i] = __builtin_shufflevector(a, b, first), v[i + (half)] = __builtin_shufflevector(a, b, second); \
        }
#define LIST(...) __VA_ARGS__
static inline __attribute__((always_inline)) void transpose(vec *v) {
#ifdef DOUBLE
    EXCHANGE(2, LIST(0, 1, 4, 5), LIST(2, 3, 6, 7))
    EXCHANGE(1, LIST(0, 4, 2, 6), LIST(1, 5, 3, 7))
#else
    EXCHANGE(4, LIST(0, 1, 2, 3, 8, 9, 10, 11), LIST(4, 5, 6, 7, 12, 13, 14, 15))
    EXCHANGE(2, LIST(0, 1, 8, 9, 4, 5, 12, 13), LIST(2, 3, 10, 11, 6, 7, 14, 15))
    EXCHANGE(1, LIST(0, 8, 2, 10, 4, 12, 6, 14), LIST(1, 9, 3, 11, 5, 13, 7, 15))
#endif
}
#else
static inline void transpose(vec *v) {
    for (integer i = 0; i < LANES; i++)
        for (integer j = 0; j < i; j++) {
            const real number = v[i][j];
            v[i][j] = v[j][i], v[j][i] = number;
        }
}
#endif

/* The states of a variable in each lane [S, LANES], from where they begin; `at` are LANES places. */
static inline void gather_axis(integer S, const real *from, const int32_t *at, vec *to) {
    integer s = 0;
    for (; s + LANES <= S; s += LANES) {
        vec v[LANES];
        for (integer l = 0; l < LANES; l++) v[l] = *(const loose *)(from + at[l] + s);
        transpose(v);
        for (integer l = 0; l < LANES; l++) to[s + l] = v[l];
    }
    for (; s < S; s++) to[s] = gather(from + s, at);
}

static inline vec larger(vec a, vec b) {
    const mask which = a > b;
    return (vec)(((mask)a & which) | ((mask)b & ~which));
}

/* x = exp(cavity) on all axes, up to a constant in each: beliefs without the factor's own messages. */
static void cavities(const group *g, const int32_t *places, const real *belief, const real *messages, const chunk *c) {
    for (integer a = 0; a < g->order; a++, places += LANES) {
        const integer S = g->shape[a];
        const vec *m = (const vec *)messages + g->row[a];
        vec *x = c->x + g->row[a], top;
        gather_axis(S, belief, places, x);
        top = x[0] -= m[0];
        for (integer s = 1; s < S; s++) {
            x[s] -= m[s];
            top = larger(x[s], top);
        }
        for (integer s = 0; s < S; s++) x[s] -= top;
    }
    real *x = (real *)c->x;
    SIMD for (integer i = 0; i < g->rows * LANES; i++) x[i] = fast_exp(x[i]);
}

/* The messages after a layer, from y; they may take the place of those before. */
static void logs(const group *g, real keep, const chunk *c, const real *before, real *after) {
    for (integer a = 0; a < g->order; a++) {
        vec *y = c->y + g->row[a], sum = y[0];
        for (integer s = 1; s < g->shape[a]; s++) sum += y[s];
        sum = (real)g->shape[a] / sum;
        for (integer s = 0; s < g->shape[a]; s++) y[s] *= sum;
    }
    const real *y = (const real *)c->y;
    const integer n = g->rows * LANES;
    if (keep == 0) {
        SIMD for (integer i = 0; i < n; i++) after[i] = fast_log(y[i]);
    } else {
        SIMD for (integer i = 0; i < n; i++) after[i] = (1 - keep) * fast_log(y[i]) + keep * before[i];
    }
}

static inline __attribute__((always_inline)) void scatter_axis(integer S, const int32_t *places, integer lanes,
                                                               const real *from, real *to) {
    integer s = 0;
    for (; s + LANES <= S; s += LANES, from += LANES * LANES) {
        vec v[LANES];
        for (integer l = 0; l < LANES; l++) v[l] = ((const vec *)from)[l];
        transpose(v);
        for (integer l = 0; l < lanes; l++) *(loose *)(to + places[l] + s) += v[l];
    }
    for (integer l = 0; l < lanes; l++)
        for (integer i = s; i < S; i++) to[places[l] + i] += from[(i - s) * LANES + l];
}

/* Add the messages of the first `lanes` factors of a chunk, or their gradients, to their variables' states. */
static inline void scatter(const group *g, const int32_t *places, integer lanes, const real *from, real *to) {
    for (integer a = 0; a < g->order; a++, places += LANES) {
        const integer S = g->shape[a];
        switch (S) {
        case 2: scatter_axis(2, places, lanes, from, to); break;
        case 3: scatter_axis(3, places, lanes, from, to); break;
        case 4: scatter_axis(4, places, lanes, from, to); break;
        case 8: scatter_axis(8, places, lanes, from, to); break;
        default: scatter_axis(S, places, lanes, from, to);
        }
        from += S * LANES;
    }
}

/* The largest change of the log-odds of two states, in the messages of the first `lanes` factors. */
static real change_of(const group *g, integer lanes, const real *before, const real *after) {
    real largest = 0;
    for (integer a = 0; a < g->order; a++)
        for (integer l = 0; l < lanes; l++) {
            real high = -INFINITY, low = INFINITY;
            for (integer s = 0; s < g->shape[a]; s++) {
                const integer i = (g->row[a] + s) * LANES + l;
                const real change = after[i] - before[i];
                high = change > high ? change : high, low = change < low ? change : low;
            }
            largest = high - low > largest ? high - low : largest;
        }
    return largest;
}

/* The places of a chunk [axis, LANES], the first state of all where a lane has no factor. */
static inline void places_of(const group *g, const int32_t *places, integer first, integer lanes, int32_t *where) {
    for (integer a = 0; a < g->order; a++, where += LANES)
        for (integer l = 0; l < LANES; l++) where[l] = l < lanes ? places[a * g->count + first + l] : 0;
}

static inline integer lanes_of(const group *g, integer chunk) {
    return g->count - chunk * LANES < LANES ? g->count - chunk * LANES : LANES;
}

static inline integer chunks_of(const group *g) { return (g->count + LANES - 1) / LANES; }

/* One layer, from one state to the next, which may be the same. */
static void forward_layer(const factors_task *t, const real *belief, const real *before, real *after, real *memory,
                          real *residual) {
    const integer *shapes = t->shapes;
    const int32_t *places = t->places;
    const vec *table = (const vec *)t->tables;
    real *sums = after + t->messages;
    int32_t where[MAX_ORDER * LANES];
    memset(sums, 0, sizeof(real) * t->total);
    group g;
    for (integer i = 0; i < t->groups; i++) {
        shapes = read_group(shapes, &g);
        const chunk c = chunk_at(&g, memory);
        const integer entries = g.before[g.order], size = g.rows * LANES;
        for (integer k = 0; k < chunks_of(&g); k++) {
            const integer lanes = lanes_of(&g, k);
            places_of(&g, places, k * LANES, lanes, where);
            cavities(&g, where, belief, before, &c);
            pass(&g, table, &c);
            real *old = (real *)c.dx;
            if (residual) memcpy(old, before, sizeof(real) * size);
            logs(&g, (real)t->damping, &c, before, after);
            scatter(&g, where, lanes, after, sums);
            if (residual) {
                const real change = change_of(&g, lanes, old, after);
                *residual = change > *residual ? change : *residual;
            }
            before += size, after += size;
            if (g.own) table += entries;
        }
        places += g.order * g.count;
        if (!g.own) table += entries;
    }
}

/* One layer backwards. `own` has the gradients of the messages after it on entry, of those before it on return, without
   what went through the sums; that is `d_sums` for those after it, and added to d_belief for those before it. */
static void backward_layer(const factors_task *t, const real *belief, const real *before, const real *d_sums, real *own,
                           real *d_belief, real *d_tables, real *memory) {
    const integer *shapes = t->shapes;
    const int32_t *places = t->places;
    const vec *table = (const vec *)t->tables;
    vec *d_table = (vec *)d_tables;
    const real keep = (real)t->damping;
    int32_t where[MAX_ORDER * LANES];
    group g;
    for (integer i = 0; i < t->groups; i++) {
        shapes = read_group(shapes, &g);
        const chunk c = chunk_at(&g, memory);
        const integer entries = g.before[g.order], size = g.rows * LANES;
        for (integer k = 0; k < chunks_of(&g); k++) {
            const integer lanes = lanes_of(&g, k);
            vec used; /* 1 in lanes with a factor */
            for (integer l = 0; l < LANES; l++) used[l] = l < lanes;
            places_of(&g, places, k * LANES, lanes, where);
            cavities(&g, where, belief, before, &c);
            pass(&g, table, &c);
            for (integer a = 0; a < g.order; a++) {
                const integer S = g.shape[a];
                vec *G = (vec *)(own + g.row[a] * LANES), *dy = c.dy + g.row[a], sum = {0}, total = {0};
                const vec *y = c.y + g.row[a];
                for (integer s = 0; s < S; s++) { /* log(y / mean y): a constant has no gradient */
                    G[s] = used * (G[s] + gather(d_sums + s, where + a * LANES));
                    sum += y[s], total += G[s];
                }
                for (integer s = 0; s < S; s++) dy[s] = (1 - keep) * (G[s] / y[s] - total / sum);
            }
            pass_back(&g, table, d_table, &c);
            real *d_cavity = (real *)c.dx;
            for (integer j = 0; j < size; j++) {
                d_cavity[j] *= ((const real *)c.x)[j];
                own[j] = keep * own[j] - d_cavity[j];
            }
            scatter(&g, where, lanes, d_cavity, d_belief);
            before += size, own += size;
            if (g.own) table += entries, d_table += entries;
        }
        places += g.order * g.count;
        if (!g.own) table += entries, d_table += entries;
    }
}

/* A chunk of tables as numbers: exp(log − largest); in each lane its own table, or in all the same. */
static int exponentials(const group *g, const real *logs, integer lanes, real *table) {
    const integer entries = g->before[g->order];
    memset(table, 0, sizeof(real) * entries * LANES);
    for (integer l = 0; l < lanes; l++, logs += g->own ? entries : 0) {
        real high = logs[0], low = logs[0];
        for (integer e = 0; e < entries; e++) {
            high = logs[e] > high ? logs[e] : high, low = logs[e] < low ? logs[e] : low;
            if (logs[e] != logs[e]) return BAD_TABLE;
        }
        if (!(high - low <= LARGEST_RANGE)) return BAD_TABLE;
        for (integer e = 0; e < entries; e++) table[e * LANES + l] = logs[e] - high;
    }
    SIMD for (integer i = 0; i < entries * LANES; i++) table[i] = fast_exp(table[i]);
    return 0;
}

/* All tables as numbers, and whether these and all places can be used. */
EXPORT int factors_prepare(const factors_task *t, integer first, integer last, integer thread) {
    (void)first, (void)last, (void)thread;
    const integer *shapes = t->shapes;
    const int32_t *places = t->places;
    const real *logs = t->logs;
    real *table = t->tables;
    group g;
    for (integer i = 0; i < t->groups; i++) {
        shapes = read_group(shapes, &g);
        const integer entries = g.before[g.order];
        for (integer k = 0; k < (g.own ? chunks_of(&g) : 1); k++) {
            const integer lanes = g.own ? lanes_of(&g, k) : LANES;
            if (exponentials(&g, logs, lanes, table)) return BAD_TABLE;
            logs += (g.own ? lanes : 1) * entries, table += LANES * entries;
        }
        for (integer a = 0; a < g.order; a++)
            for (integer f = 0; f < g.count; f++, places++)
                if (*places < 0 || *places > t->total - g.shape[a]) return BAD_PLACE;
    }
    return 0;
}

static void add(integer n, const real *one, const real *other, real *sum) {
    for (integer i = 0; i < n; i++) sum[i] = one[i] + other[i];
}

EXPORT int factors_forward(const factors_task *t, integer first, integer last, integer thread) {
    const integer M = t->messages, total = t->total, N = t->layers, size = M + total;
    real *belief = t->scratch + thread * t->scratch_size, *memory = belief + total;
    for (integer b = first; b < last; b++) {
        real *state = t->states + (t->keep ? b * (N + 1) : thread) * size;
        memset(state, 0, sizeof(real) * size);
        for (integer n = 1, depth = 0; n <= N; n++) {
            if (t->stop) return STOPPED;
            real *next = t->keep ? state + size : state, *residual = t->residual ? t->residual + b * N + n - 1 : NULL;
            add(total, t->alone + b * total, state + M, belief);
            if (residual) *residual = 0;
            forward_layer(t, belief, state, next, memory, residual);
            state = next;
            if (n == t->depths[depth])
                memcpy(t->sums + (b * t->n_depths + depth++) * total, state + M, sizeof(real) * total);
        }
    }
    return 0;
}

EXPORT int factors_backward(const factors_task *t, integer first, integer last, integer thread) {
    const integer M = t->messages, total = t->total, N = t->layers, size = M + total;
    real *belief = t->scratch + thread * t->scratch_size, *d_belief = belief + total, *d_sums = d_belief + total;
    real *own = d_sums + total, *memory = own + M, *d_tables = t->d_tables + thread * t->tables_size;
    for (integer b = first; b < last; b++) {
        real *d_alone = t->d_alone + b * total;
        memset(own, 0, sizeof(real) * M);
        memset(d_sums, 0, sizeof(real) * total);
        memset(d_alone, 0, sizeof(real) * total);
        for (integer n = N, depth = t->n_depths - 1; n >= 1; n--) {
            if (t->stop) return STOPPED;
            const real *state = t->states + (b * (N + 1) + n - 1) * size;
            if (depth >= 0 && n == t->depths[depth])
                add(total, d_sums, t->d_sums + (b * t->n_depths + depth--) * total, d_sums);
            add(total, t->alone + b * total, state + M, belief);
            memset(d_belief, 0, sizeof(real) * total);
            backward_layer(t, belief, state, d_sums, own, d_belief, d_tables, memory);
            add(total, d_alone, d_belief, d_alone);
            memcpy(d_sums, d_belief, sizeof(real) * total);
        }
    }
    return 0;
}
