// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/builder.h"
#include "lockstep/model_spec.h"

namespace lockstep::nn {

/// A decoder-only transformer with learned positions and pre-norm blocks (Radford et al. 2019),
/// with Hugging Face's parameter names ("transformer.h.0.attn.c_attn.weight") and layouts. Weights
/// start as normal(0, 0.02), those of projections into the residual stream as normal(0, 0.02 /
/// sqrt(2 layers)). tokens: [N, T] i32, T at most spec.context -> logits: [N, T, spec.outputs].
Value gpt(const ModelSpec& spec, Builder& nn, Value tokens);

/// The sizes of "gpt2-124m", "gpt2-355m", "gpt2-774m" and "gpt2-1.5b"; false for other names.
bool is_gpt2_preset(std::string_view name);
/// Sets layers, heads, width, context, bias, gelu and tied_head as the preset has them.
void apply_gpt2_preset(ModelSpec& spec);

}  // namespace lockstep::nn
