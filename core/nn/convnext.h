// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/builder.h"
#include "lockstep/model_spec.h"

namespace lockstep::nn {

/// ConvNeXt-T (Liu et al. 2022, table 9) with the parameter names of torchvision's convnext_tiny:
/// residual blocks of a depthwise 7x7 convolution, layer norm over channels, a linear layer of four
/// times the channels, GELU and one back, whose result has a learned factor for each channel that
/// starts as 1e-6. Weights start as normal(0, 0.02); the original cuts that off at 2, which it
/// never reaches. `stochastic_depth` as torchvision's, which trains with 0.1. Stem::cifar: a 2x2
/// stride-2 first convolution instead of 4x4 stride 4. x: [N, H, W, C] -> logits: [N,
/// spec.outputs].
Value convnext_tiny(const ModelSpec& spec, Builder& nn, Value x);

}  // namespace lockstep::nn
