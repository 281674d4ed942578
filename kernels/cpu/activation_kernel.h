// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/exec/kernel.h"
#include "core/ops/activations/activation.h"

namespace lockstep::cpu {

/// `gemm` with `activation` after it; see make_with_activation().
std::unique_ptr<Kernel> wrap_activation(std::unique_ptr<Kernel> gemm,
                                        ops::Activation activation,
                                        bool kept_input,
                                        const TensorType& output);

/// A GEMM followed by an activation, as one kernel. `make_gemm` makes the GEMM for a spec
/// with one output; `kept_input` says that the node has a second output for the activation's input.
/// The activation runs over what the GEMM has just written, with the bits of its own operator.
/// (oneDNN could apply ReLU on the way out, but turns NaN into 0.)
template <typename MakeGemm>
std::unique_ptr<Kernel> make_with_activation(const KernelSpec& spec,
                                             ops::Activation activation,
                                             bool kept_input,
                                             MakeGemm make_gemm) {
  KernelSpec one = spec;
  one.outputs.resize(1);
  one.output_accumulates.resize(1);
  return wrap_activation(make_gemm(one), activation, kept_input, spec.outputs[0]);
}

/// `gemm`, which makes a gradient of `output`'s type, with GELU's gradient after it, in place:
/// input 2 of the node is GELU's input. The bits of both operators apart.
std::unique_ptr<Kernel> wrap_gelu_gradient(std::unique_ptr<Kernel> gemm,
                                           ops::Activation gelu,
                                           const TensorType& output);

}  // namespace lockstep::cpu
