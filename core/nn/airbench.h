// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/builder.h"
#include "lockstep/model_spec.h"

namespace lockstep::nn {

/// The network of airbench94 (Jordan 2024, "94% on CIFAR-10 in 3.29 Seconds on a Single GPU", arXiv
/// 2404.00498, section 3.1) with the parameter names of its code: a 2x2 whitening convolution,
/// which is not trained but for its bias, and GELU; three groups of a 3x3 convolution, 2x2 max
/// pooling, batch norm, GELU, a 3x3 convolution, batch norm, GELU, of 64, 256 and 256 channels; 3x3
/// max pooling; a linear layer without bias, times 1/9. Batch norms have no weights to train, and
/// convolutions start as the identity of their channels as far as they have filters for it.
/// x: [N, H, W, C] -> logits: [N, spec.outputs]. Throws ShapeError: images smaller than 25x25.
Value airbench94(const ModelSpec& spec, Builder& nn, Value x);

}  // namespace lockstep::nn
