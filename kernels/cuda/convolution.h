// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/base/shape.h"
#include "kernels/cuda/device.h"

namespace lockstep::cuda {

enum class ConvolutionPass : std::uint8_t { forward, data_gradient, weight_gradient };

/// x: [n, h, w, c], weight: [k, kernel, kernel, c / groups], y: [n, out_h, out_w, k], all of one
/// type, f32 or bf16, NHWC without gaps; sums are fp32. All extents >= 1.
struct ConvolutionSpec {
  ConvolutionPass pass = ConvolutionPass::forward;
  DType type = DType::f32;
  std::int64_t n = 0, h = 0, w = 0, c = 0;
  std::int64_t k = 0, kernel = 0, out_h = 0, out_w = 0;
  std::int64_t stride = 1, padding = 0, groups = 1;
};

/// forward: x, weight -> y; data_gradient: y (= dy), weight -> x (= dx); weight_gradient:
/// x, y (= dy) -> weight (= dweight) + (accumulate ? weight : 0).
struct ConvolutionArguments {
  void* x = nullptr;
  void* weight = nullptr;
  void* y = nullptr;
  bool accumulate = false;  ///< only weight_gradient in f32
  void* workspace = nullptr;
};

/// One convolution with its algorithm, a deterministic one chosen at construction. cuDNN on a
/// device; plain loops in the emulator.
class Convolution {
 public:
  virtual ~Convolution() = default;
  virtual std::size_t workspace_bytes() const = 0;
  /// Enqueues it on the device's compute stream.
  virtual void run(const ConvolutionArguments& arguments) = 0;
};

/// `what` names the operator in errors. Throws Error where the library has no algorithm.
std::unique_ptr<Convolution> make_convolution(const Device& device,
                                              const ConvolutionSpec& spec,
                                              const std::string& what);

}  // namespace lockstep::cuda
