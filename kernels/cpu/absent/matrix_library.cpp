// SPDX-License-Identifier: Apache-2.0
// The placeholder for a matrix library where none is built in.
#include "kernels/cpu/matrix_library.h"

#include <vector>

#include "kernels/cpu/bf16_products.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/small_gemm.h"

namespace lockstep::cpu {

std::string matrix_library() { return "no matrix library"; }

void check_matrix_library() {}

void use_one_thread() {}

bool has_depthwise_kernels() { return false; }

Bf16Products library_bf16_products() { return Bf16Products::widened; }

std::function<void()> make_square_matmul(DType type, std::int64_t size) {
  if (type != DType::f32) return {};
  const std::vector<float> zeros(std::size_t(size * size));
  return [zeros, result = zeros, size, product = LOCKSTEP_CHOOSE(small_gemm)]() mutable {
    product({.m = size,
             .n = size,
             .k = size,
             .a = zeros.data(),
             .a_row = size,
             .b = zeros.data(),
             .b_row = size,
             .c = result.data(),
             .c_row = size},
            false);
  };
}

std::unique_ptr<Kernel> make_library_linear(const LinearExtents&, bool, const KernelSpec&) {
  return nullptr;
}
std::unique_ptr<Kernel> make_library_linear_bwd_data(const LinearExtents&, const KernelSpec&) {
  return nullptr;
}
std::unique_ptr<Kernel> make_library_linear_bwd_weights(const LinearExtents&,
                                                        bool,
                                                        const KernelSpec&) {
  return nullptr;
}

std::unique_ptr<Kernel> make_library_matmul(const ops::Matmul&, const KernelSpec&) {
  return nullptr;
}

}  // namespace lockstep::cpu

bool lockstep::cpu_backend_has_onednn() { return false; }
