// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/cuda/linear/matrix_product.h"

// Note [Long sums of few elements]
//
// A weight's gradient is a GEMM of few results with long sums: 64 x 256 of 802,816 rows for a 1x1
// convolution in ResNet-50's first stage, 65 x 384 of 16,384 for the head of a text of 65
// characters. Results are tiles, of about 128 x 128, and tiles are what
// the library gives to multiprocessors; sums of few tiles have to be split. cuBLASLt 13.1 proposes
// 33 and 66 parts on an H200, which has 132 multiprocessors, and those do not divide the rows
// (cublaslt_matrix_product.cpp); without them it took 14.5 ms, where memory takes 0.12. So the rows
// are cut here, into GEMMs of k / parts rows each, whose results go to the workspace and are added
// by column_sums(): 0.136 ms. The number of parts is a function of the shape.
//
// Of up to four tiles all sums of 4,096 rows or more are cut: a multiprocessor takes 20 us for a
// tile's there in bf16, 300 in fp32, and the two launches more that a cut costs take 4. 64 x 256 of
// 802,816 rows in 64 parts takes 128 us, in 196 parts 132. With more tiles the library's own parts
// are, where they divide: 256 x 1024 of 50,176 rows 41 us against 59 in 16 parts. Where it splits
// nothing, sums are cut here as well, also where algorithms are timed: these parts are not among
// them. So it is in fp32 by measurement; in bf16, for up to 66 tiles, by the same count (a cut
// saves half of 20 us for each 4,096 rows at least, and costs 4 and the sums of the parts), not yet
// run on a GPU: of 384 x 1536 of 16,384 rows in bf16 it refused what it likes best, and took 356
// us.
//
// Where rows of A have a gap, as those of 65 classes padded to 72, parts have results for some of
// it, up to a multiple of eight: cuBLASLt has its slow kernels alone for others. They are not
// added.
namespace lockstep::cuda {

/// Parts of k that give a tile to each multiprocessor of an H100, or the next number below that
/// divides; 1 where the result has enough tiles, or k no such divisor. Parts have multiples of 32
/// rows, so that each begins where a GEMM's operands may, and 256 of them at least.
std::int64_t parts_of_sum(std::int64_t m, std::int64_t n, std::int64_t k);

/// make_matrix_product() of A^T B with fp32 results and without epilogue, whose sums are cut into
/// parts as the note says. `spec.parts` is 1. Gaps between A's rows are read; what lies there
/// enters no result. Never null; throws as make_matrix_product().
std::unique_ptr<MatrixProduct> make_split_product(const Device& device,
                                                  MatrixProductSpec spec,
                                                  const std::string& what);

}  // namespace lockstep::cuda
