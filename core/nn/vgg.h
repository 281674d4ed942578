// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/builder.h"
#include "lockstep/model_spec.h"

namespace lockstep::nn {

/// VGG with batch norm (Simonyan and Zisserman 2015, configurations A and D) with the parameter
/// names of torchvision's vgg11_bn and vgg16_bn. x: [N, H, W, C].
/// Throws ShapeError: with the imagenet stem, images that do not come out of the five poolings as
/// 7x7 (224x224 do).
Value vgg11(const ModelSpec& spec, Builder& nn, Value x);
Value vgg16(const ModelSpec& spec, Builder& nn, Value x);

}  // namespace lockstep::nn
