// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/shape.h"

namespace lockstep {

class Backend;

/// How many elements of a tensor are infinite or NaN.
struct NonFiniteCount {
  std::int64_t elems = 0;       ///< of the tensor
  std::int64_t non_finite = 0;  ///< of those
  std::int64_t first = -1;      ///< index of the first of them; -1: there is none
  float value = 0;              ///< the first of them
};

/// Copies a dense float tensor (f32 or bf16) from the device to the host in pieces and looks at
/// every element; waits for the device. Other types have none.
NonFiniteCount count_non_finite(Backend& backend, const void* device, const TensorType& type);
/// The same of host memory.
NonFiniteCount count_non_finite(const void* host, const TensorType& type);

/// The first kernel output that held something infinite or NaN; see Program::check_finite().
struct FiniteReport {
  bool found = false;
  /// Position in the graph that the program was made of, in whichever order it runs: ranks whose
  /// programs have other batch sizes, and so may have other orders, compare it.
  int node = -1;
  std::string op = {};    ///< "linear"
  std::string path = {};  ///< "layers.0.fc1"
  bool backward = false;  ///< computed in the backward pass
  int output = 0;         ///< of the node
  NonFiniteCount count;
};

}  // namespace lockstep
