// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lockstep/parameter.h"

namespace lockstep::io {

/// A parameter or running statistic with its values, as Trainer::weights() returns them. Models
/// keep them in layouts of their own; files have PyTorch's: see to_file_layout().
struct NamedTensor {
  Parameter parameter;
  std::vector<float> values;
};

/// The values in the file's order (PyTorch's layout), from the stored order; and back.
std::vector<float> to_file_layout(const Parameter& parameter, std::span<const float> stored);
std::vector<float> from_file_layout(const Parameter& parameter, std::span<const float> file);

/// SHA-256, in hexadecimal, over the fp32 values of all tensors in declaration order, each as the
/// file would hold it (little-endian).
std::string weights_sha256(std::span<const NamedTensor> tensors);

/// Writes a safetensors file with PyTorch's names and layouts: to a temporary name next to it,
/// synced, then renamed. Throws EnvironmentError naming file and cause; what was there before
/// stays.
void save_weights(const std::string& file, std::span<const NamedTensor> tensors);

/// What became of the tensors of a file, and of the parameters of a model.
struct LoadReport {
  std::string source;                ///< the file, and the part of it
  std::int64_t loaded = 0;           ///< parameters that have its values
  std::int64_t fresh = 0;            ///< parameters that a skip pattern keeps as they were
  std::vector<std::string> skipped;  ///< what of the file was not used: tensors, by name

  /// "resnet18.pth: 100 tensors loaded, 22 skipped (fc.bias, fc.weight, 20 num_batches_tracked), 2
  /// new": at most five names.
  std::string to_string() const;
};

}  // namespace lockstep::io
