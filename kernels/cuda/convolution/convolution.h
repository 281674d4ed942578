// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "kernels/cuda/device/device.h"
#include "lockstep/shape.h"

namespace lockstep::cuda {

enum class ConvolutionPass : std::uint8_t { forward, data_gradient, weight_gradient };

/// x: [n, h, w, c], weight: [k, kernel_h, kernel_w, c / groups], y: [n, out_h, out_w, k], NHWC
/// without gaps. What is read has one type, f32 or bf16; sums are fp32, what is stored as bf16 is
/// rounded once. All extents >= 1.
struct ConvolutionSpec {
  ConvolutionPass pass = ConvolutionPass::forward;
  DType type = DType::f32;
  DType result = DType::f32;  ///< of what the pass stores: `type`, or f32 where it is not a dx
  bool bias = false;          ///< y += bias: [k] f32; of the forward pass alone
  std::int64_t n = 0, h = 0, w = 0, c = 0;
  std::int64_t k = 0, kernel_h = 0, kernel_w = 0, out_h = 0, out_w = 0;
  std::int64_t stride_h = 1, stride_w = 1, padding_h = 0, padding_w = 0, groups = 1;
};

/// forward: x, weight (, bias) -> y; data_gradient: y (= dy), weight -> x (= dx);
/// weight_gradient: x, y (= dy) -> weight (= dweight).
struct ConvolutionArguments {
  void* x = nullptr;
  void* weight = nullptr;
  void* y = nullptr;
  const float* bias = nullptr;
  void* workspace = nullptr;  ///< aligned to kWorkspaceAlignment
};

/// One convolution with its algorithm, a deterministic one that is chosen at construction or stands
/// in device.algorithms. cuDNN on a device; plain loops in the emulator.
class Convolution {
 public:
  virtual ~Convolution() = default;
  virtual std::size_t workspace_bytes() const = 0;
  /// Enqueues it on the device's compute stream.
  virtual void run(const ConvolutionArguments& arguments) = 0;
};

/// `what` names the operator in errors. Null where the library has no deterministic algorithm; then
/// device.algorithms says why. Throws EnvironmentError where that names one that cannot run here.
std::unique_ptr<Convolution> make_convolution(const Device& device,
                                              const ConvolutionSpec& spec,
                                              const std::string& what);

/// Whether windows have one element and stand one next to the other: each pass is a GEMM of x, y
/// and the weight as they lie.
bool is_product(const ConvolutionSpec& spec);
/// Such a one, forward or data gradient, in fp32 that is not rounded to tf32. Null where `spec` is
/// another or the library has no such GEMM.
std::unique_ptr<Convolution> make_product_convolution(const Device& device,
                                                      const ConvolutionSpec& spec,
                                                      const std::string& what);

/// The same for one to seven channels in bf16, forward with small windows or weight gradient, by
/// one of eight in the workspace. Null where `spec` is another or the library has no algorithm for
/// that.
std::unique_ptr<Convolution> make_padded_convolution(const Device& device,
                                                     const ConvolutionSpec& spec,
                                                     const std::string& what);

/// The same by an own kernel without tensor cores, for what the library lacks. Takes every spec.
std::unique_ptr<Convolution> make_direct_convolution(const Device& device,
                                                     const ConvolutionSpec& spec);

}  // namespace lockstep::cuda
