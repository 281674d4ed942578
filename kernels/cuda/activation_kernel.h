// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/exec/kernel.h"
#include "core/ops/activations/activation.h"
#include "kernels/cuda/device/device.h"

namespace lockstep::cuda {

/// `gemm` with `activation` after it; see make_with_activation().
std::unique_ptr<Kernel> wrap_activation(std::unique_ptr<Kernel> gemm,
                                        ops::Activation activation,
                                        bool kept_input,
                                        const TensorType& output,
                                        const Device& device);

/// A GEMM followed by an activation, as one kernel: for those that the library's epilogue does
/// not apply. `make_gemm` makes the GEMM for a spec with one output; `kept_input` says that
/// the node has a second output for the activation's input. The activation is a launch of its own
/// over what the GEMM has just written, with the bits of its own operator.
template <typename MakeGemm>
std::unique_ptr<Kernel> make_with_activation(const KernelSpec& spec,
                                             ops::Activation activation,
                                             bool kept_input,
                                             const Device& device,
                                             MakeGemm make_gemm) {
  KernelSpec one = spec;
  one.outputs.resize(1);
  one.output_accumulates.resize(1);
  return wrap_activation(make_gemm(one), activation, kept_input, spec.outputs[0], device);
}

/// d = d gelu'(x), each `elems` elements of `type`, aligned to 16 bytes; on the compute stream.
void apply_gelu_gradient(const Device& device,
                         ops::Activation gelu,
                         void* d,
                         const void* x,
                         DType type,
                         std::int64_t elems);

}  // namespace lockstep::cuda
