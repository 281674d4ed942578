// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/cuda/linear/matrix_product.h"

// Note [Long sums of few elements]
//
// The gradient of a 1x1 convolution's weight is a GEMM of few results with long sums: 64 x 256 of
// 802,816 rows in ResNet-50's first stage. A result is a few tiles of 128 x 128, and tiles are what
// the library gives to multiprocessors. cuBLASLt 13.1 splits such sums in 16 at most, and on an
// H200 did not split some of them at all: 15.7 ms, where memory takes 0.12. So the rows are cut
// here, into GEMMs of k / parts rows each, whose results go to the workspace and are added by
// column_sums(). The number of parts is a function of the shape.
namespace lockstep::cuda {

/// Parts of k that give about kWantedTiles tiles; 1 where the result has enough of them, or where k
/// has no divisor that fits. Parts have multiples of 32 rows, so that each begins where a GEMM's
/// operands may, and 256 of them at least.
std::int64_t parts_of_sum(std::int64_t m, std::int64_t n, std::int64_t k);

/// make_matrix_product() of A^T B with fp32 results and without epilogue, whose sums are cut into
/// parts as parts_of_sum() says. `spec.parts` is 1. Never null; throws as make_matrix_product().
std::unique_ptr<MatrixProduct> make_split_product(const Device& device,
                                                  MatrixProductSpec spec,
                                                  const std::string& what);

}  // namespace lockstep::cuda
