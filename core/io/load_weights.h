// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/base/name_patterns.h"
#include "core/io/weights.h"

namespace lockstep::io {

/// Reads the values of `parameters` (trained ones and running statistics; others are left out) from
/// a safetensors file with PyTorch's names and layouts, as Lockstep, PyTorch and Hugging Face write
/// them: f32, or f16, bf16 and f64, converted. Parameters that match `skip` are left out, whatever
/// the file holds of them; PyTorch's num_batches_tracked is ignored.
/// Of a gpt, all names of the file may lack the prefix "transformer.", as GPT2Model and OpenAI's
/// files have it; mask buffers ("h.0.attn.bias", "h.0.attn.masked_bias") are ignored, and so is a
/// "lm_head.weight" that the model has not and that equals the token table, the tied head.
/// The result is in stored layout and in the order of `parameters`.
/// Throws DataError: the file cannot be read (see SafetensorsReader), or does not fit: one error
/// that lists every name that is missing, unknown, of another shape or of a type that is no real
/// number, each with what was expected and what came. ConfigError: a skip pattern matches nothing.
std::vector<NamedTensor> load_weights(const std::string& file,
                                      const std::vector<Parameter>& parameters,
                                      const NamePatterns& skip);

}  // namespace lockstep::io
