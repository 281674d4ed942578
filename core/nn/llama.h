// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/builder.h"
#include "lockstep/model_spec.h"

namespace lockstep::nn {

/// A decoder-only transformer as Llama (Touvron et al. 2023): pre-norm blocks of RMSNorm (Zhang and
/// Sennrich 2019), grouped-query attention (Ainslie et al. 2023) with rotary positions (Su et al.
/// 2021) and SwiGLU (Shazeer 2020), without biases, with the parameter names of Hugging Face's
/// LlamaForCausalLM ("model.layers.0.self_attn.q_proj.weight"). Weights start as normal(0, 0.02),
/// those of projections into the residual stream as normal(0, 0.02 / sqrt(2 layers)). tokens:
/// [N, T] i32, T at most spec.context -> logits: [N, T, spec.outputs].
Value llama(const ModelSpec& spec, Builder& nn, Value tokens);

/// Width of the feed-forward layers where it is not set: two thirds of 4 width, which have as many
/// weights as gpt's two matrices (Shazeer 2020, section 2), up to a multiple of 64.
std::int64_t usual_mlp_width(std::int64_t width);

/// "smollm-135m", "smollm-360m" and "llama-3.2-1b"; false for other names.
bool is_llama_preset(std::string_view name);
/// Tokens of a preset's vocabulary.
std::int64_t vocabulary_of_llama_preset(std::string_view name);
/// Sets the sizes, context, norm_eps, rotary and tied_head as the preset has them.
void apply_llama_preset(ModelSpec& spec);

}  // namespace lockstep::nn
