// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/graph/parameter.h"

namespace lockstep::io {

/// A parameter or running statistic with its values, as stored or as a file holds them.
struct NamedTensor {
  Parameter parameter;
  std::vector<float> values;
};

/// The values in the file's order (PyTorch's layout), from the stored order; and back.
std::vector<float> to_file_layout(const Parameter& parameter, std::span<const float> stored);
std::vector<float> from_file_layout(const Parameter& parameter, std::span<const float> file);

/// The same as to_file_layout(), handed out in pieces, in order, so that no second copy is made.
void for_file_layout(const Parameter& parameter,
                     std::span<const float> stored,
                     const std::function<void(std::span<const float>)>& visit);

/// SHA-256, in hexadecimal, over the fp32 values of all tensors in declaration order, each as the
/// file would hold it (little-endian).
std::string weights_sha256(std::span<const NamedTensor> tensors);

/// Writes a safetensors file with PyTorch's names and layouts: to a temporary name next to it,
/// synced, then renamed. Throws EnvironmentError naming file and cause; what was there before
/// stays.
void save_weights(const std::string& file, std::span<const NamedTensor> tensors);

}  // namespace lockstep::io
