// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/builder.h"
#include "lockstep/model_spec.h"

namespace lockstep::nn {

/// Residual networks (He et al. 2016) with torchvision's parameter names. x: [N, H, W, C].
Value resnet18(const ModelSpec& spec, Builder& nn, Value x);
Value resnet34(const ModelSpec& spec, Builder& nn, Value x);
/// Those of bottleneck blocks are "v1.5": the stride is in the 3x3 convolution.
Value resnet50(const ModelSpec& spec, Builder& nn, Value x);
Value resnet101(const ModelSpec& spec, Builder& nn, Value x);
Value resnet152(const ModelSpec& spec, Builder& nn, Value x);
/// The CIFAR network of section 4.2: 16, 32, 64 channels, three blocks each.
Value resnet20(const ModelSpec& spec, Builder& nn, Value x);

}  // namespace lockstep::nn
