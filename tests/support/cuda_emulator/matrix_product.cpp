// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/linear/matrix_product.h"

#include <cmath>

#include "kernels/cuda/linear/product_helpers.h"
#include "tests/support/cuda_emulator/emulated_algorithm.h"
#include "tests/support/cuda_emulator/host_values.h"
#include "tests/support/cuda_emulator/library_limits.h"

namespace lockstep::cuda {
namespace {

float gelu_tanh(float x) {
  const float inner = 0.7978845608f * (x + 0.044715f * x * x * x);
  return 0.5f * x * (1.0f + std::tanh(inner));
}

float gelu_tanh_slope(float x) {
  const float tanh = std::tanh(0.7978845608f * (x + 0.044715f * x * x * x));
  const float inner_slope = 0.7978845608f * (1.0f + 3.0f * 0.044715f * x * x);
  return 0.5f * (1.0f + tanh) + 0.5f * x * (1.0f - tanh * tanh) * inner_slope;
}

/// Operands as fp32.
struct Operands {
  Operands(const MatrixProductSpec& s, bool tf32, const MatrixArguments& arguments)
      : a(factors(arguments.a, s.factors, elems_of_a(s), tf32)),
        b(factors(arguments.b, s.factors, s.k * s.n, tf32)),
        bias(widened(arguments.bias, s.result, has_bias(s.epilogue) ? s.n : 0)),
        before(widened(arguments.accumulate ? arguments.c : arguments.summand,
                       s.result,
                       arguments.accumulate || arguments.beta != 0 ? s.parts * s.m * s.n : 0)),
        slope_at(widened(arguments.slope_at,
                         s.result,
                         s.epilogue == MatrixEpilogue::gelu_tanh_gradient ? s.m * s.n : 0)) {}

  static std::int64_t pitch_of_a(const MatrixProductSpec& s) {
    return s.a_pitch > 0 ? s.a_pitch : s.transpose_a ? s.m : s.k;
  }
  /// To the end of the last row, not of its gap.
  static std::int64_t elems_of_a(const MatrixProductSpec& s) {
    return s.transpose_a ? (s.k - 1) * pitch_of_a(s) + s.m : (s.m - 1) * pitch_of_a(s) + s.k;
  }
  float a_at(const MatrixProductSpec& s, std::int64_t i, std::int64_t l) const {
    const std::int64_t pitch = pitch_of_a(s);
    return a[std::size_t(s.transpose_a ? l * pitch + i : i * pitch + l)];
  }
  float b_at(const MatrixProductSpec& s, std::int64_t l, std::int64_t j) const {
    return b[std::size_t(s.transpose_b ? j * s.k + l : l * s.n + j)];
  }

  std::vector<float> a, b, bias, before, slope_at;
};

class EmulatedProduct final : public MatrixProduct {
 public:
  EmulatedProduct(const MatrixProductSpec& spec, EmulatedAlgorithm algorithm, const Device& device)
      : spec_(spec), algorithm_(algorithm), stream_(device.compute), tf32_(device.tf32) {}
  std::size_t workspace_bytes() const override { return kEmulatedWorkspace; }

  void run(const MatrixArguments& arguments) override {
    LOCKSTEP_ASSERT(!arguments.accumulate || spec_.epilogue == MatrixEpilogue::none);
    check_workspace(arguments.workspace, kEmulatedWorkspace);
    enqueue_library_call(stream_, [s = spec_, algorithm = algorithm_, tf32 = tf32_, arguments] {
      use_workspace(arguments.workspace);
      const Operands operands(s, tf32, arguments);
      multiply(s, algorithm, operands, arguments);
    });
  }

 private:
  static void multiply(const MatrixProductSpec& s,
                       EmulatedAlgorithm algorithm,
                       const Operands& operands,
                       const MatrixArguments& arguments) {
    const std::int64_t rows = s.k / s.parts;
    for (std::int64_t part = 0; part < s.parts; ++part)
      for (std::int64_t i = 0; i < s.m; ++i)
        for (std::int64_t j = 0; j < s.n; ++j) {
          float sum = 0.0f;
          for (std::int64_t step = 0; step < rows; ++step) {
            const std::int64_t l = part * rows + algorithm.place(step, rows);
            sum += operands.a_at(s, i, l) * operands.b_at(s, l, j);
          }
          finish(s, sum, operands, arguments, (part * s.m + i) * s.n + j);
        }
  }

  /// `element`: of C, and without parts of what is like it.
  static void finish(const MatrixProductSpec& s,
                     float sum,
                     const Operands& operands,
                     const MatrixArguments& arguments,
                     std::int64_t element) {
    sum *= arguments.alpha;
    if (has_bias(s.epilogue)) sum += operands.bias[std::size_t(element % s.n)];
    if (!operands.before.empty())
      sum += (arguments.accumulate ? 1.0f : arguments.beta) * operands.before[std::size_t(element)];
    if (s.epilogue == MatrixEpilogue::bias_gelu_tanh_kept)
      store(sum, arguments.kept, s.result, element);
    if (s.epilogue == MatrixEpilogue::bias_gelu_tanh ||
        s.epilogue == MatrixEpilogue::bias_gelu_tanh_kept)
      sum = gelu_tanh(sum);
    if (s.epilogue == MatrixEpilogue::gelu_tanh_gradient)
      sum *= gelu_tanh_slope(operands.slope_at[std::size_t(element)]);
    store(sum, arguments.c, s.result, element);
  }

  MatrixProductSpec spec_;
  EmulatedAlgorithm algorithm_;
  cudaStream_t stream_;
  bool tf32_;
};

/// As cuBLASLt: a second matrix has rows of multiples of eight.
bool takes_epilogue(const MatrixProductSpec& spec) {
  const LibraryLimits& limits = library_limits();
  if (has_bias(spec.epilogue) && !limits.matrix_bias) return false;
  if (has_second_matrix(spec.epilogue) && spec.n % 8 != 0) return false;
  if (spec.epilogue == MatrixEpilogue::gelu_tanh_gradient) return limits.matrix_gelu_gradient;
  return true;
}

}  // namespace

std::unique_ptr<MatrixProduct> make_matrix_product(const Device& device,
                                                   const MatrixProductSpec& spec,
                                                   const std::string& what) {
  LOCKSTEP_ASSERT(spec.m > 0 && spec.n > 0 && spec.k > 0 && spec.k % spec.parts == 0);
  LOCKSTEP_ASSERT(spec.parts == 1 ||
                  (spec.transpose_a && !spec.transpose_b && spec.epilogue == MatrixEpilogue::none));
  const auto algorithm =
      choose_emulated(device, algorithm_key(device, spec), takes_epilogue(spec), what);
  if (!algorithm) return nullptr;
  return std::make_unique<EmulatedProduct>(spec, *algorithm, device);
}

}  // namespace lockstep::cuda
