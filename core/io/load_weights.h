// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/base/text/name_patterns.h"
#include "lockstep/weights.h"

namespace lockstep::io {

/// Reads the values of `parameters` (trained ones and running statistics; others are skipped) from
/// what open_weights() opens, with PyTorch's names and layouts, as Lockstep, PyTorch and Hugging
/// Face write them: f32, or f16, bf16 and f64, converted. Parameters that match `skip` are
/// skipped, whatever the file holds of them; PyTorch's num_batches_tracked is ignored, and so is
/// what is not a tensor. Names lose the prefixes "module." and "_orig_mod." of DataParallel and
/// torch.compile(), in any order and number, unless a parameter has one. Of a gpt, all names of the
/// file may lack the prefix "transformer.", as GPT2Model and OpenAI's files have it. Of a gpt or
/// llama, buffers ("h.0.attn.bias", "h.0.attn.masked_bias", "rotary_emb.inv_freq") are ignored, and
/// so is a "lm_head.weight" that the model has not and that equals the token table, the tied head.
/// The result is in stored layout and in the order of `parameters`. `report` may be null. Throws
/// DataError: the file cannot be read (see open_weights()), two names are the same without their
/// prefixes, or it does not fit: one error that lists every name that is missing, unknown, of
/// another shape or of a type that is not a real number, each with what was expected and what came.
/// ConfigError: a skip pattern matches nothing.
std::vector<NamedTensor> load_weights(const std::string& file,
                                      const std::vector<Parameter>& parameters,
                                      const NamePatterns& skip,
                                      LoadReport* report = nullptr);

}  // namespace lockstep::io
