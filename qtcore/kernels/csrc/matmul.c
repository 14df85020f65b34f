/* The matrix product, written for the compiler to keep its sums in registers, a tile of them at a time.
   Products of rounded factors sum in float and are twice as fast, where the processor has them. */

#include "matmul.h"
#if CAN_ROUND
#include <immintrin.h>
#endif

#define UNROLL _Pragma("GCC unroll 9")

/* A tile of R rows by NV vectors: its sums, its row of B and one entry of A fill the registers, of which there are 32
   with AVX-512 and 16 with AVX2 (on ARM 32 of half the size). */
#if defined(__AVX512VL__)
#define TILE 3
#define WIDTH 9
#define TILES(OF, NV) OF(1, NV) OF(2, NV) OF(3, NV)
#define WIDTHS(OF) OF(1) OF(2) OF(3) OF(4) OF(5) OF(6) OF(7) OF(8) OF(9)
#else
#define TILE 6
#define WIDTH 2
#define TILES(OF, NV) OF(1, NV) OF(2, NV) OF(3, NV) OF(4, NV) OF(5, NV) OF(6, NV)
#define WIDTHS(OF) OF(1) OF(2)
#endif

/* One tile. All sizes are constants where it is called, and so is one of A's strides: the loop over the depth then has
   nothing in it but products. */
static inline __attribute__((always_inline)) void one_tile(const int R, const int NV, integer depth, const real *A,
                                                           const integer row, const integer column, const real *B,
                                                           real *C, integer ld, int add) {
    vec sum[R][NV];
    UNROLL for (int r = 0; r < R; r++)
        UNROLL for (int v = 0; v < NV; v++) sum[r][v] = add ? *(vec *)(C + r * ld + v * LANES) : (vec){0};
    for (integer k = 0; k < depth; k++) {
        const vec *b = (const vec *)(B + k * ld);
        UNROLL for (int r = 0; r < R; r++) {
            const vec x = A[r * row + k * column] - (vec){0};
            UNROLL for (int v = 0; v < NV; v++) sum[r][v] += x * b[v];
        }
    }
    UNROLL for (int r = 0; r < R; r++)
        UNROLL for (int v = 0; v < NV; v++) *(vec *)(C + r * ld + v * LANES) = sum[r][v];
}

/* Tiles of A's rows (its columns follow each other), and of those of its transpose (its rows do). */
#define TILE_OF(R, NV)                                                                                                 \
    static void rows_##R##_##NV(integer depth, const real *A, integer stride, const real *B, real *C, integer ld,      \
                                int add) {                                                                             \
        one_tile(R, NV, depth, A, stride, 1, B, C, ld, add);                                                           \
    }                                                                                                                  \
    static void columns_##R##_##NV(integer depth, const real *A, integer stride, const real *B, real *C, integer ld,   \
                                   int add) {                                                                          \
        one_tile(R, NV, depth, A, 1, stride, B, C, ld, add);                                                           \
    }
#define TILES_OF(NV) TILES(TILE_OF, NV)
WIDTHS(TILES_OF)

typedef void product(integer, const real *, integer, const real *, real *, integer, int);

#define ROWS(R, NV) rows_##R##_##NV,
#define COLUMNS(R, NV) columns_##R##_##NV,
#define ALL_ROWS(NV) {NULL, TILES(ROWS, NV)},
#define ALL_COLUMNS(NV) {NULL, TILES(COLUMNS, NV)},
static product *const BY_ROWS[WIDTH + 1][TILE + 1] = {{NULL}, WIDTHS(ALL_ROWS)};
static product *const BY_COLUMNS[WIDTH + 1][TILE + 1] = {{NULL}, WIDTHS(ALL_COLUMNS)};

/* How many of the rows that are left the next tile takes: not so many that a thin one remains. */
static inline integer next_tile(integer left) {
    return left <= TILE ? left : left < 2 * TILE - 1 ? (left + 1) / 2 : TILE;
}

void multiply(integer rows, integer depth, const real *A, integer row, integer column, const real *B, real *C,
              integer ld, int add) {
    for (integer done = 0; done < ld / LANES; done += WIDTH) {
        const integer width = ld / LANES - done < WIDTH ? ld / LANES - done : WIDTH;
        product *const *by = column == 1 ? BY_ROWS[width] : BY_COLUMNS[width];
        const integer stride = column == 1 ? row : column;
        for (integer i = 0, tile; i < rows; i += tile) {
            tile = next_tile(rows - i);
            by[tile](depth, A + i * row, stride, B + done * LANES, C + i * ld + done * LANES, ld, add);
        }
    }
}

#if CAN_ROUND
/* An array of sums for each row: gcc would keep a single one in memory. The last rows may be done twice. */
#define MULTIPLY_PAIRS(NV)                                                                                             \
    static void multiply_pairs_##NV(integer rows, integer depth, const pair *A, integer row, integer column,           \
                                    const pair *B, float *C, integer ld, int add) {                                    \
        for (integer i = 0; i < rows; i += 3) {                                                                        \
            const integer j = i + 1 < rows ? i + 1 : i, k = i + 2 < rows ? i + 2 : i;                                  \
            __m256 sum[NV], sum_j[NV], sum_k[NV];                                                                      \
            UNROLL for (int v = 0; v < NV; v++) {                                                                      \
                sum[v] = add ? _mm256_loadu_ps(C + i * ld + v * 8) : _mm256_setzero_ps();                              \
                sum_j[v] = add ? _mm256_loadu_ps(C + j * ld + v * 8) : _mm256_setzero_ps();                            \
                sum_k[v] = add ? _mm256_loadu_ps(C + k * ld + v * 8) : _mm256_setzero_ps();                            \
            }                                                                                                          \
            for (integer n = 0; n < depth; n++) {                                                                      \
                const __m256bh a = (__m256bh)_mm256_set1_epi32((int)A[i * row + n * column]);                          \
                const __m256bh a_j = (__m256bh)_mm256_set1_epi32((int)A[j * row + n * column]);                        \
                const __m256bh a_k = (__m256bh)_mm256_set1_epi32((int)A[k * row + n * column]);                        \
                UNROLL for (int v = 0; v < NV; v++) {                                                                  \
                    const __m256bh b = (__m256bh)_mm256_loadu_si256((const __m256i *)(B + n * ld + v * 8));            \
                    sum[v] = _mm256_dpbf16_ps(sum[v], a, b);                                                           \
                    sum_j[v] = _mm256_dpbf16_ps(sum_j[v], a_j, b);                                                     \
                    sum_k[v] = _mm256_dpbf16_ps(sum_k[v], a_k, b);                                                     \
                }                                                                                                      \
            }                                                                                                          \
            UNROLL for (int v = 0; v < NV; v++) {                                                                      \
                _mm256_storeu_ps(C + i * ld + v * 8, sum[v]);                                                          \
                _mm256_storeu_ps(C + j * ld + v * 8, sum_j[v]);                                                        \
                _mm256_storeu_ps(C + k * ld + v * 8, sum_k[v]);                                                        \
            }                                                                                                          \
        }                                                                                                              \
    }
MULTIPLY_PAIRS(1) MULTIPLY_PAIRS(2) MULTIPLY_PAIRS(3) MULTIPLY_PAIRS(4) MULTIPLY_PAIRS(5)
MULTIPLY_PAIRS(6) MULTIPLY_PAIRS(7) MULTIPLY_PAIRS(8) MULTIPLY_PAIRS(9)

typedef void product_of_pairs(integer, integer, const pair *, integer, integer, const pair *, float *, integer, int);

void multiply_pairs(integer rows, integer depth, const pair *A, integer row, integer column, const pair *B, real *C,
                    integer ld, int add) {
    static product_of_pairs *const by_width[] = {
        NULL, multiply_pairs_1, multiply_pairs_2, multiply_pairs_3, multiply_pairs_4,
        multiply_pairs_5, multiply_pairs_6, multiply_pairs_7, multiply_pairs_8, multiply_pairs_9};
    for (integer done = 0; done < ld / 8; done += 9) {
        integer width = ld / 8 - done < 9 ? ld / 8 - done : 9;
        by_width[width](rows, depth, A, row, column, B + done * 8, C + done * 8, ld, add);
    }
}
#else
void multiply_pairs(integer rows, integer depth, const pair *A, integer row, integer column, const pair *B, real *C,
                    integer ld, int add) {
    (void)rows, (void)depth, (void)A, (void)row, (void)column, (void)B, (void)C, (void)ld, (void)add;
}
#endif

/* The upper half of a float, rounded to even. */
static inline unsigned rounded(float x) {
    unsigned bits;
    memcpy(&bits, &x, sizeof bits);
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

void round_along(integer n, const real *row, pair *out) {
    SIMD for (integer k = 0; k < n / 2; k++) out[k] = rounded((float)row[2 * k]) | rounded((float)row[2 * k + 1]) << 16;
}

void round_across(integer rows, integer n, const real *table, pair *out) {
    for (integer k = 0; k < rows; k += 2, out += n) {
        const real *one = table + k * n, *two = one + n;
        SIMD for (integer i = 0; i < n; i++) out[i] = rounded((float)one[i]);
        if (k + 1 < rows) SIMD for (integer i = 0; i < n; i++) out[i] |= rounded((float)two[i]) << 16;
    }
}
