// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "core/exec/run_state.h"
#include "core/graph/graph.h"

namespace lockstep {

/// What a kernel is made for: one node with its types. Valid during construction only; kernels
/// copy what they keep.
struct KernelSpec {
  const Operator& op;
  std::vector<TensorType> inputs;
  std::vector<TensorType> outputs;
  std::string path;                  ///< of the node; keys random numbers
  std::vector<int> input_parameter;  ///< parameter number of each input, -1 for activations
  /// Output i goes into the flat gradient space: RunState::accumulate applies to it.
  std::vector<bool> output_accumulates;
};

/// "conv2d layer1.conv1 (f32[32, 28, 28, 1], f32[32, 3, 3, 1]) -> (f32[32, 28, 28, 32])": names
/// the node in errors.
std::string describe(const KernelSpec& spec);

/// The format of a PackedCopy that is the parameter rounded to bf16, row by row: optimizer updates
/// write it next to the parameter.
inline constexpr const char* kRoundedFormat = "bf16";

/// Memory that a kernel wants in addition to its inputs and outputs.
struct PackedCopy {
  int input = -1;      ///< which input (a parameter) it is derived from
  std::string format;  ///< equal (parameter, format) pairs share one copy
  std::size_t bytes = 0;
};

/// cuBLASLt wants its workspace at such addresses.
inline constexpr std::size_t kWorkspaceAlignment = 256;

/// Pointers in device memory, aligned to 64 bytes at least (parameters and gradients to 256, the
/// workspace to kWorkspaceAlignment), fixed for the life of the program.
struct KernelBuffers {
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  void* workspace = nullptr;
  std::vector<void*> packed;  ///< one per requested packed copy
};

/// One step of a compiled program on one device. Built once at plan time (all look-ups,
/// allocations and choices of algorithm happen there), bound once, run many times.
class Kernel {
 public:
  virtual ~Kernel() = default;

  /// Scratch that lives only while run() does; part of the arena.
  virtual std::size_t workspace_bytes() const { return 0; }
  /// Derived copies of parameters (packed for the matrix library), kept between runs.
  virtual std::vector<PackedCopy> packed_copies() const { return {}; }
  /// Called once, before anything else.
  virtual void bind(const KernelBuffers& buffers) = 0;
  /// Refreshes packed copy `index` from its parameter; called before the first run() after the
  /// parameters changed, for one of the kernels that share the copy.
  virtual void pack(int /*index*/) {}
  /// Enqueues (CUDA) or does (CPU) the work. Allocates nothing, synchronises nothing.
  virtual void run(const RunState& state) = 0;
};

}  // namespace lockstep
