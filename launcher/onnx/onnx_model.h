// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "lockstep/builder.h"
#include "lockstep/data/preprocessing.h"

namespace lockstep::onnx {

/// Above this many bytes of weights they lie in a file of their own: a message of protobuf takes
/// 2 GiB at most.
inline constexpr std::uint64_t kMaxBytesInside = 1'900'000'000;

/// What write_model() wrote, for people.
struct WrittenModel {
  std::string input, output;        ///< "x: uint8 [batch, 3, 224, 224]"
  std::filesystem::path data_file;  ///< of the weights; empty: they are in the model's file
};

/// Writes a trained model as an ONNX file, in fp32, for any number of samples:
///   x           images: uint8 or float [batch, C, H, W], as the data have them, whose scale and
///               shift (mean and deviation) the model applies; tables: float [batch, features],
///               prepared as the record says; tokens: int64 [batch, sequence], sequence at most the
///               context
///   prediction  float [batch, outputs], of tokens [batch, sequence, outputs]: the model's own,
///               logits where it is a classifier
/// Initializers have the names and layouts of PyTorch's parameters. The model's metadata hold
/// "preprocessing", the record as JSON, and "classes", a JSON list of names, where there are any.
/// `weights`: as io::load_weights() reads. Each file is put in place whole or not at all, once both
/// are written, that of the weights first; `force`: over what is there. Throws ConfigError: a layer
/// that ONNX has not, or a file of weights that is there; DataError: weights that do not fit;
/// EnvironmentError: a file cannot be written.
WrittenModel write_model(const std::filesystem::path& to,
                         const ModelFunction& model,
                         const data::Preprocessing& record,
                         const std::string& weights,
                         bool force,
                         std::uint64_t max_bytes_inside = kMaxBytesInside);

}  // namespace lockstep::onnx
