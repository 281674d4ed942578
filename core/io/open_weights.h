// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "core/io/weight_source.h"

namespace lockstep::io {

/// Opens, by its content: a safetensors file; what torch.save() wrote of a state dict (see
/// io::torch::TorchFile); an index of shards (*.index.json, see ShardedWeights); or a folder with
/// model.safetensors, model.safetensors.index.json, pytorch_model.bin or
/// pytorch_model.bin.index.json, the first that is there. Throws DataError: none of these, and what
/// is wrong with it.
std::unique_ptr<WeightSource> open_weights(const std::string& path);

/// The same for one file with tensors.
std::unique_ptr<WeightSource> open_weight_file(const std::string& file);

}  // namespace lockstep::io
