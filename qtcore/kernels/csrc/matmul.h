/* Products of small matrices whose rows are whole vectors; exact, or of factors rounded to bfloat16. */

#pragma once
#include "common.h"

#if defined(__AVX512BF16__) && defined(__AVX512VL__) && !defined(DOUBLE)
#define CAN_ROUND 1
#else
#define CAN_ROUND 0
#endif

#define VECTOR_BYTES 32
#define LANES (VECTOR_BYTES / (integer)sizeof(real))
typedef real vec __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(real)), may_alias));
typedef unsigned pair __attribute__((may_alias)); /* two rounded numbers */

/* C[rows × n] (+)= A[rows × depth] B[depth × n]; A by the strides of its rows and columns, one of which is 1, B and C
   by their row length ld, a multiple of LANES. */
void multiply(integer rows, integer depth, const real *A, integer row, integer column, const real *B, real *C,
              integer ld, int add);

/* The same with pairs of rounded numbers that follow each other in depth; nothing where CAN_ROUND is 0. */
void multiply_pairs(integer rows, integer depth, const pair *A, integer row, integer column, const pair *B, real *C,
                    integer ld, int add);

/* Pairs along a row of n numbers. */
void round_along(integer n, const real *row, pair *out);

/* Pairs across the rows of a table [rows, n]; after an odd number of rows come zeros. */
void round_across(integer rows, integer n, const real *table, pair *out);
