// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "core/io/checkpoint/checkpoint.h"
#include "core/io/safetensors.h"
#include "lockstep/error.h"
#include "lockstep/weights.h"

namespace lockstep::testing {

inline std::string content_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

/// A model of a few hundred bytes (a convolution, whose layout in files is another, a linear layer,
/// and a second name of its weights) with values that depend on the step alone.
class SmallCheckpoint {
 public:
  /// `scale` times as many outputs of the linear layer.
  explicit SmallCheckpoint(std::int64_t step, std::int64_t scale = 1) : step_(step) {
    add("conv.weight", {2, 1, 2, 3}, {{2, 1, 2, 3}, {0, 3, 1, 2}, {2, 3, 1, 2}});
    add("fc.weight", {2 * scale, 2}, {{2 * scale, 2}, {}, {2 * scale, 2}});
    add("fc.bias", {2}, {{2}, {}, {2}});
  }

  /// Refers to this object.
  io::CheckpointContent content() const {
    io::CheckpointContent content;
    content.state.step = step_;
    content.state.samples = 64 * step_;
    content.state.wall_s = 0.1 * double(step_);
    content.state.train_loss = 1.0 / double(3 + step_);
    content.state.best_step = 1;
    content.state.best_val_loss = 0.25;
    content.state.settings = {{"model", "small"}, {"lr", "0.1"}};
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const Parameter& parameter = parameters_[i];
      content.model.push_back({parameter.name, &parameter, values_[i]});
      content.optimizer.push_back({parameter.name + ".momentum_buffer", &parameter, momentum_[i]});
    }
    content.model.push_back({"head.weight", &parameters_[1], values_[1]});
    content.texts["config.toml"] = "step = " + std::to_string(step_) + "\n";
    return content;
  }

  std::vector<float> stored(std::size_t parameter) const { return values_[parameter]; }

  /// How the checkpoint differs from this one; empty where it does not.
  std::string difference(const std::filesystem::path& checkpoint) const {
    const io::CheckpointContent expected = content();
    const io::CheckpointState state = io::verify_checkpoint(checkpoint);
    if (state.step != step_ || state.samples != expected.state.samples ||
        state.train_loss != expected.state.train_loss || state.settings != expected.state.settings)
      return "state of step " + std::to_string(state.step);
    if (content_of(checkpoint / "config.toml") != expected.texts.at("config.toml"))
      return "config.toml";
    std::string name = difference(checkpoint / "model.safetensors", expected.model);
    if (name.empty()) name = difference(checkpoint / "optimizer.safetensors", expected.optimizer);
    return name;
  }

 private:
  void add(const std::string& name, const Shape& shape, FileLayout layout) {
    Parameter& parameter = parameters_.emplace_back();
    parameter.name = name;
    parameter.shape = shape;
    parameter.file_layout = std::move(layout);
    const float start = 1000.0f * float(parameters_.size()) + 0.01f * float(step_);
    values_.push_back(numbers(start, shape));
    momentum_.push_back(numbers(-start, shape));
  }

  static std::vector<float> numbers(float start, const Shape& shape) {
    std::vector<float> result;
    for (std::int64_t i = 0; i < shape.elems(); ++i) result.push_back(start + float(i));
    return result;
  }

  static std::string difference(const std::filesystem::path& file,
                                const std::vector<io::CheckpointTensor>& expected) {
    const io::SafetensorsReader reader(file);
    if (reader.entries().size() != expected.size()) return file.string();
    for (const io::CheckpointTensor& tensor : expected)
      if (io::from_file_layout(*tensor.parameter, reader.read<float>(tensor.name)) !=
          std::vector<float>(tensor.stored.begin(), tensor.stored.end()))
        return tensor.name;
    return {};
  }

  std::int64_t step_;
  std::deque<Parameter> parameters_;
  std::deque<std::vector<float>> values_, momentum_;
};

}  // namespace lockstep::testing
