// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/builder.h"
#include "lockstep/model_spec.h"

namespace lockstep::nn {

/// Vision transformers (Dosovitskiy et al. 2021) of 12 layers, of patches of 16 x 16 pixels, with a
/// class token and learned positions: "vit-ti16" and "vit-s16" as DeiT has them (Touvron et al.
/// 2021; 192 and 384 columns in 3 and 6 heads), with timm's parameter names
/// ("blocks.0.attn.qkv.weight"), and "vit-b16" (768 columns, 12 heads) with those of torchvision's
/// vit_b_16. Stem::cifar: patches of 4 x 4. Weights start as DeiT's, normal(0, 0.02) in linear
/// layers, class token and positions; the originals cut that off at two of their units, which it
/// never reaches. `dropout` as torchvision's, `stochastic_depth` as DeiT's drop path, which it
/// trains with 0.1. x: [N, H, W, C], H and W multiples of the patch -> logits: [N, spec.outputs].
/// The position table has as many rows as the images have patches, and one.
Value vit(const ModelSpec& spec, Builder& nn, Value x);

}  // namespace lockstep::nn
