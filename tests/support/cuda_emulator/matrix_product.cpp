// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/matrix_product.h"

#include <cmath>

#include "tests/support/cuda_emulator/host_values.h"
#include "tests/support/cuda_emulator/library_limits.h"

namespace lockstep::cuda {
namespace {

float gelu_tanh(float x) {
  const float inner = 0.7978845608f * (x + 0.044715f * x * x * x);
  return 0.5f * x * (1.0f + std::tanh(inner));
}

class EmulatedProduct final : public MatrixProduct {
 public:
  EmulatedProduct(const MatrixProductSpec& spec, const Device& device)
      : spec_(spec), stream_(device.compute), tf32_(device.tf32) {}
  std::size_t workspace_bytes() const override { return kEmulatedWorkspace; }

  void run(const MatrixArguments& arguments) override {
    LOCKSTEP_ASSERT(!arguments.accumulate || spec_.epilogue == MatrixEpilogue::none);
    LOCKSTEP_ASSERT(arguments.workspace != nullptr);
    enqueue_library_call(stream_,
                         [s = spec_, tf32 = tf32_, arguments] { multiply(s, tf32, arguments); });
  }

 private:
  static void multiply(const MatrixProductSpec& s, bool tf32, const MatrixArguments& arguments) {
    use_workspace(arguments.workspace);
    const std::vector<float> a = factors(arguments.a, s.factors, s.m * s.k, tf32);
    const std::vector<float> b = factors(arguments.b, s.factors, s.k * s.n, tf32);
    const bool epilogue = s.epilogue != MatrixEpilogue::none;
    const std::vector<float> bias = widened(arguments.bias, s.bias, epilogue ? s.n : 0);
    const std::vector<float> before =
        widened(arguments.c, s.result, arguments.accumulate ? s.m * s.n : 0);
    for (std::int64_t i = 0; i < s.m; ++i)
      for (std::int64_t j = 0; j < s.n; ++j) {
        const std::int64_t element = i * s.n + j;
        float sum = 0.0f;
        for (std::int64_t l = 0; l < s.k; ++l)
          sum += a[std::size_t(s.transpose_a ? l * s.m + i : i * s.k + l)] *
                 b[std::size_t(s.transpose_b ? j * s.k + l : l * s.n + j)];
        if (epilogue) sum += bias[std::size_t(j)];
        if (arguments.accumulate) sum += before[std::size_t(element)];
        if (s.epilogue == MatrixEpilogue::bias_gelu_tanh) {
          store(sum, arguments.aux, s.result, element);
          sum = gelu_tanh(sum);
        }
        store(sum, arguments.c, s.result, element);
      }
  }

  MatrixProductSpec spec_;
  cudaStream_t stream_;
  bool tf32_;
};

/// As cuBLASLt: a bias has the type of the result, and a second output rows of multiples of eight.
bool takes_epilogue(const MatrixProductSpec& spec) {
  if (spec.epilogue == MatrixEpilogue::none) return true;
  if (spec.bias != spec.result || !library_limits().matrix_bias) return false;
  return spec.epilogue == MatrixEpilogue::bias || spec.n % 8 == 0;
}

}  // namespace

LibraryLimits& library_limits() {
  static LibraryLimits limits;
  return limits;
}

std::unique_ptr<MatrixProduct> make_matrix_product(const Device& device,
                                                   const MatrixProductSpec& spec,
                                                   const std::string&) {
  LOCKSTEP_ASSERT(spec.m > 0 && spec.n > 0 && spec.k > 0);
  if (!takes_epilogue(spec)) return nullptr;
  return std::make_unique<EmulatedProduct>(spec, device);
}

}  // namespace lockstep::cuda
