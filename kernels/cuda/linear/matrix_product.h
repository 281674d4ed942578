// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "kernels/cuda/device/device.h"
#include "lockstep/shape.h"

namespace lockstep::cuda {

/// What a GEMM does in addition to multiplying, inside the library's kernel. P: op(A) op(B).
enum class MatrixEpilogue : std::uint8_t {
  none,
  bias,                 ///< C = P + bias[n], to every row
  bias_gelu_tanh,       ///< C = gelu_tanh(P + bias); see ops::Gelu
  bias_gelu_tanh_kept,  ///< the same, and kept = P + bias
  gelu_tanh_gradient,   ///< C = P gelu_tanh'(slope_at); see ops::GeluBwd
};

constexpr bool has_bias(MatrixEpilogue epilogue) {
  return epilogue == MatrixEpilogue::bias || epilogue == MatrixEpilogue::bias_gelu_tanh ||
         epilogue == MatrixEpilogue::bias_gelu_tanh_kept;
}
/// Whether there is another matrix like C, `kept` or `slope_at`.
constexpr bool has_second_matrix(MatrixEpilogue epilogue) {
  return epilogue == MatrixEpilogue::bias_gelu_tanh_kept ||
         epilogue == MatrixEpilogue::gelu_tanh_gradient;
}

/// C = epilogue(alpha op(A) op(B)) + (accumulate ? C : beta S), row-major, without gaps but for
/// A's:
///   op(A): [m, k], A stored as [m, k], or [k, m] where transpose_a;
///   op(B): [k, n], B stored as [k, n], or [n, k] where transpose_b;
///   C, S, kept, slope_at: [m, n]; bias: [n].
/// A and B have one type, f32 or bf16; C is that type or f32; the bias is of C's. Sums over k are
/// fp32; what is stored as bf16 is rounded once. All extents >= 1.
///
/// With `parts` > 1, which divides k, there are so many GEMMs of k / parts rows of A and B each,
/// one C after another: [parts, m, n]. Then transpose_a, no transpose_b, no epilogue.
struct MatrixProductSpec {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  DType factors = DType::f32;
  DType result = DType::f32;
  MatrixEpilogue epilogue = MatrixEpilogue::none;
  std::int64_t a_pitch = 0;  ///< elements from a row of A, as stored, to the next; 0: no gaps
  std::int64_t parts = 1;
};

/// Of a, b and c, in bytes.
inline constexpr std::int64_t kProductAlignment = 64;

struct MatrixArguments {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  const void* bias = nullptr;
  void* kept = nullptr;
  const void* slope_at = nullptr;
  bool accumulate = false;        ///< to C, without an epilogue
  float alpha = 1, beta = 0;      ///< without an epilogue and `accumulate`
  const void* summand = nullptr;  ///< S, read where beta is not 0; of C's type
  void* workspace = nullptr;      ///< aligned to kWorkspaceAlignment
};

/// One GEMM with its algorithm, which is chosen at construction or in device.algorithms,
/// and gives the same bits in every run. cuBLASLt on a device; plain loops in the emulator.
class MatrixProduct {
 public:
  virtual ~MatrixProduct() = default;
  virtual std::size_t workspace_bytes() const = 0;
  /// Whether the algorithm splits sums over k among blocks.
  virtual bool splits_sums() const { return false; }
  /// Enqueues it on the device's compute stream.
  virtual void run(const MatrixArguments& arguments) = 0;
};

/// `what` names the operator in errors. Null where the library has no algorithm with this epilogue
/// (then do its work after a GEMM without one); throws Error where it has none without, and
/// EnvironmentError where device.algorithms names one that cannot run here.
std::unique_ptr<MatrixProduct> make_matrix_product(const Device& device,
                                                   const MatrixProductSpec& spec,
                                                   const std::string& what);

}  // namespace lockstep::cuda
