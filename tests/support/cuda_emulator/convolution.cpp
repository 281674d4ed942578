// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/convolution/convolution.h"

#include "kernels/cuda/linear/product_helpers.h"
#include "tests/support/cuda_emulator/emulated_algorithm.h"
#include "tests/support/cuda_emulator/host_values.h"
#include "tests/support/cuda_emulator/library_limits.h"

namespace lockstep::cuda {
namespace {

/// Calls `visit(x index, weight index, y index)` for every product, in the algorithm's order.
template <typename Visit>
void for_each_product(const ConvolutionSpec& s, EmulatedAlgorithm algorithm, Visit visit) {
  const std::int64_t in = s.c / s.groups, out = s.k / s.groups;
  for (std::int64_t sample = 0; sample < s.n; ++sample)
    for (std::int64_t p = 0; p < s.out_h; ++p)
      for (std::int64_t q = 0; q < s.out_w; ++q)
        for (std::int64_t filter = 0; filter < s.k; ++filter)
          for (std::int64_t row = 0; row < s.kernel_h; ++row)
            for (std::int64_t t = 0; t < s.kernel_w; ++t) {
              const std::int64_t n = algorithm.place(sample, s.n);
              const std::int64_t o = algorithm.place(filter, s.k);
              const std::int64_t r = algorithm.place(row, s.kernel_h);
              const std::int64_t h = p * s.stride_h - s.padding_h + r;
              const std::int64_t w = q * s.stride_w - s.padding_w + t;
              if (h < 0 || h >= s.h || w < 0 || w >= s.w) continue;
              for (std::int64_t channel = 0; channel < in; ++channel) {
                const std::int64_t i = algorithm.place(channel, in);
                visit(std::size_t(((n * s.h + h) * s.w + w) * s.c + o / out * in + i),
                      std::size_t(((o * s.kernel_h + r) * s.kernel_w + t) * in + i),
                      std::size_t(((n * s.out_h + p) * s.out_w + q) * s.k + o));
              }
            }
}

class EmulatedConvolution final : public Convolution {
 public:
  EmulatedConvolution(const ConvolutionSpec& spec,
                      EmulatedAlgorithm algorithm,
                      const Device& device)
      : spec_(spec), algorithm_(algorithm), stream_(device.compute), tf32_(device.tf32) {}
  std::size_t workspace_bytes() const override { return kEmulatedWorkspace; }

  void run(const ConvolutionArguments& arguments) override {
    check_workspace(arguments.workspace, kEmulatedWorkspace);
    enqueue_library_call(stream_, [s = spec_, algorithm = algorithm_, tf32 = tf32_, arguments] {
      convolve(s, algorithm, tf32, arguments);
    });
  }

 private:
  static void convolve(const ConvolutionSpec& s,
                       EmulatedAlgorithm algorithm,
                       bool tf32,
                       const ConvolutionArguments& arguments) {
    use_workspace(arguments.workspace);
    const std::int64_t x_elems = s.n * s.h * s.w * s.c, y_elems = s.n * s.out_h * s.out_w * s.k;
    const std::int64_t weight_elems = s.k * s.kernel_h * s.kernel_w * s.c / s.groups;
    const auto read = [&](ConvolutionPass result, const void* values, std::int64_t elems) {
      return s.pass == result ? std::vector<float>(std::size_t(elems))
                              : factors(values, s.type, elems, tf32);
    };
    std::vector<float> x = read(ConvolutionPass::data_gradient, arguments.x, x_elems);
    std::vector<float> w = read(ConvolutionPass::weight_gradient, arguments.weight, weight_elems);
    std::vector<float> y = read(ConvolutionPass::forward, arguments.y, y_elems);
    for_each_product(s, algorithm, [&](std::size_t i, std::size_t j, std::size_t k) {
      if (s.pass == ConvolutionPass::forward) y[k] += x[i] * w[j];
      if (s.pass == ConvolutionPass::data_gradient) x[i] += y[k] * w[j];
      if (s.pass == ConvolutionPass::weight_gradient) w[j] += x[i] * y[k];
    });
    switch (s.pass) {
      case ConvolutionPass::forward:
        if (s.bias)
          for (std::size_t i = 0; i < y.size(); ++i) y[i] += arguments.bias[i % std::size_t(s.k)];
        return write(y, arguments.y, s.result);
      case ConvolutionPass::data_gradient:
        return write(x, arguments.x, s.type);
      case ConvolutionPass::weight_gradient:
        return write(w, arguments.weight, s.result);
    }
  }

  static void write(const std::vector<float>& from, void* to, DType type) {
    for (std::size_t i = 0; i < from.size(); ++i) store(from[i], to, type, std::int64_t(i));
  }

  ConvolutionSpec spec_;
  EmulatedAlgorithm algorithm_;
  cudaStream_t stream_;
  bool tf32_;
};

bool takes(const ConvolutionSpec& spec) {
  // Refused, so that what is there for windows that a library does not take is run.
  if (spec.padding_h >= spec.kernel_h || spec.padding_w >= spec.kernel_w) return false;
  if (spec.bias && (spec.type == DType::f32 || !library_limits().convolution_bias)) return false;
  return spec.result == spec.type || library_limits().fp32_from_bf16;
}

}  // namespace

std::unique_ptr<Convolution> make_convolution(const Device& device,
                                              const ConvolutionSpec& spec,
                                              const std::string& what) {
  LOCKSTEP_ASSERT(spec.pass == ConvolutionPass::forward || !spec.bias);
  LOCKSTEP_ASSERT(spec.pass != ConvolutionPass::data_gradient || spec.result == spec.type);
  const auto algorithm = choose_emulated(device, algorithm_key(device, spec), takes(spec), what);
  if (!algorithm) return nullptr;
  return std::make_unique<EmulatedConvolution>(spec, *algorithm, device);
}

}  // namespace lockstep::cuda
