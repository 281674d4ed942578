// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/builder.h"
#include "lockstep/model_spec.h"

namespace lockstep::nn {

/// MobileNetV2 of width 1 (Sandler et al. 2018, table 2) with the parameter names of torchvision's
/// mobilenet_v2: inverted residuals of a 1x1, a depthwise 3x3 and a linear 1x1 convolution, each
/// with batch norm, the first two with ReLU6. torchvision trains it with dropout 0.2. Stem::cifar:
/// the first convolution and the first block of 24 channels have stride 1.
/// x: [N, H, W, C] -> logits: [N, spec.outputs].
Value mobilenet_v2(const ModelSpec& spec, Builder& nn, Value x);

}  // namespace lockstep::nn
