// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/io/safetensors.h"

namespace lockstep::io {

/// A tensor of a WeightSource.
struct WeightEntry {
  std::string name;
  ElementType type = ElementType::f32;
  std::vector<std::int64_t> shape;  ///< outermost first, any rank
  std::uint64_t bytes = 0;          ///< of all elements; at most those of its file
};

/// Tensors with names, from one file or several. Safe to read from several threads.
class WeightSource {
 public:
  virtual ~WeightSource() = default;

  /// For messages: the file, or the index of several.
  const std::string& name() const { return name_; }
  const std::vector<WeightEntry>& entries() const { return entries_; }
  /// Names of what the file holds in addition to tensors.
  const std::vector<std::string>& others() const { return others_; }
  /// The key of the checkpoint that the tensors lie under; empty where they do not.
  const std::string& under() const { return under_; }
  /// Elements of entry `index`, dense and in row-major order. `to` has as many bytes as the entry.
  /// Throws DataError: the file cannot be read, or became shorter.
  virtual void read(std::size_t index, std::span<std::byte> to) const = 0;

 protected:
  explicit WeightSource(std::string name) : name_(std::move(name)) {}
  std::string name_;
  std::vector<WeightEntry> entries_;
  std::vector<std::string> others_;
  std::string under_;
};

}  // namespace lockstep::io
