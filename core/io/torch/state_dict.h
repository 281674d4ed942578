// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/io/torch/pickle.h"

namespace lockstep::io::torch {

/// What a dict of tensors holds.
struct StateDict {
  std::vector<std::pair<std::string, const PickledTensor*>> tensors;  ///< in the Pickle
  std::vector<std::string> others;  ///< names of what is not a tensor
  std::string under;                ///< the key of the checkpoint that holds it, or empty
};

/// The state dict that `pickle` is, or holds under "state_dict", "model", "model_state_dict" or
/// "model_state". Throws DataError naming `file`: it is not a dict, or holds no tensor (with the
/// keys that there are).
StateDict state_dict_of(const std::string& file, const Pickle& pickle);

}  // namespace lockstep::io::torch
