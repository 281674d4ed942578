// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/matrix_product.h"

#include <cmath>

#include "kernels/cuda/product_helpers.h"
#include "tests/support/cuda_emulator/emulated_algorithm.h"
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
  EmulatedProduct(const MatrixProductSpec& spec, EmulatedAlgorithm algorithm, cudaStream_t stream)
      : spec_(spec), algorithm_(algorithm), stream_(stream) {}
  std::size_t workspace_bytes() const override { return kEmulatedWorkspace; }

  void run(const MatrixArguments& arguments) override {
    LOCKSTEP_ASSERT(!arguments.accumulate || spec_.epilogue == MatrixEpilogue::none);
    check_workspace(arguments.workspace, kEmulatedWorkspace);
    enqueue_library_call(stream_, [s = spec_, algorithm = algorithm_, arguments] {
      multiply(s, algorithm, arguments);
    });
  }

 private:
  static void multiply(const MatrixProductSpec& s,
                       EmulatedAlgorithm algorithm,
                       const MatrixArguments& arguments) {
    use_workspace(arguments.workspace);
    const std::vector<float> a = widened(arguments.a, s.factors, s.m * s.k);
    const std::vector<float> b = widened(arguments.b, s.factors, s.k * s.n);
    const bool epilogue = s.epilogue != MatrixEpilogue::none;
    const std::vector<float> bias = widened(arguments.bias, s.bias, epilogue ? s.n : 0);
    const std::vector<float> before =
        widened(arguments.c, s.result, arguments.accumulate ? s.m * s.n : 0);
    for (std::int64_t i = 0; i < s.m; ++i)
      for (std::int64_t j = 0; j < s.n; ++j) {
        const std::int64_t element = i * s.n + j;
        float sum = 0.0f;
        for (std::int64_t step = 0; step < s.k; ++step) {
          const std::int64_t l = algorithm.place(step, s.k);
          sum += a[std::size_t(s.transpose_a ? l * s.m + i : i * s.k + l)] *
                 b[std::size_t(s.transpose_b ? j * s.k + l : l * s.n + j)];
        }
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
  EmulatedAlgorithm algorithm_;
  cudaStream_t stream_;
};

/// As cuBLASLt: a bias has the type of the result, and a second output rows of multiples of eight.
bool takes_epilogue(const MatrixProductSpec& spec) {
  if (spec.epilogue == MatrixEpilogue::none) return true;
  if (spec.bias != spec.result || !library_limits().matrix_bias) return false;
  return spec.epilogue == MatrixEpilogue::bias || spec.n % 8 == 0;
}

}  // namespace

std::unique_ptr<MatrixProduct> make_matrix_product(const Device& device,
                                                   const MatrixProductSpec& spec,
                                                   const std::string& what) {
  LOCKSTEP_ASSERT(spec.m > 0 && spec.n > 0 && spec.k > 0);
  const auto algorithm =
      choose_emulated(device, algorithm_key(device, spec), takes_epilogue(spec), what);
  if (!algorithm) return nullptr;
  return std::make_unique<EmulatedProduct>(spec, *algorithm, device.compute);
}

}  // namespace lockstep::cuda
