// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "lockstep/shape.h"

namespace lockstep {

class Graph;

/// The number of a tensor in a model; kNoValue: none.
using ValueId = std::int32_t;
inline constexpr ValueId kNoValue = -1;

/// A tensor of the model that is being built: the handle that the functions of Builder take and
/// return. It has a shape and an element type, and no numbers yet. Copies are the same tensor.
/// Valid until the loss function has returned.
class Value {
 public:
  Value() = default;
  Value(const Graph* graph, ValueId id) : graph_(graph), id_(id) {}
  ValueId id() const { return id_; }
  /// [N, ...], N being the samples of a micro-batch.
  const Shape& shape() const;
  const TensorType& type() const;

 private:
  const Graph* graph_ = nullptr;
  ValueId id_ = kNoValue;
};

/// The line of a model that asks for a layer, which errors name. A function that takes one as its
/// last parameter is called without it. (std::source_location, which clang 14 lacks.)
struct SourceLoc {
  const char* file = "";  ///< as the compiler was given it
  int line = 0;

  static SourceLoc current(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

}  // namespace lockstep
