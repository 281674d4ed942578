// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/replica/compiled_programs.h"
#include "parallel/replica/replica_parts.h"

namespace lockstep {

/// What a rank's memory is used for. Every byte that Lockstep reserves belongs to one category.
enum class MemoryCategory : std::uint8_t {
  parameters,       ///< with running statistics and metrics, and their padding
  gradients,        ///< of the same layout, unless divided: Note [Gradient window]
  optimizer_state,  ///< of the same layout
  weight_average,   ///< TrainOptions::ema
  partial_sums,     ///< gradients of shards that wait for their place in the reduction tree
  packed_copies,    ///< weights in the formats that kernels compute with
  teacher,          ///< of distillation: its weights, arena and packed copies
  activations,    ///< arena: values between operators, their gradients, and what placing them costs
  workspace,      ///< arena: scratch of the operator at work
  input,          ///< arena: the micro-batch
  communication,  ///< buffers of the exchange, and steps' results on their way to the host
  snapshot,       ///< host: copies of this rank's part of weights and state, for checkpoints
  loader,         ///< host: micro-batches that are loaded ahead, and the order of samples
  image_decoding,  ///< host: what the loader's threads need to decode the largest images
  context,  ///< the program, its libraries and kernels: on a GPU their memory there, measured, see
            ///< context_part(); otherwise the process
};
inline constexpr std::size_t kMemoryCategories = 15;

/// "optimizer_state", a key of JSON; "optimizer state", for people. Partial sums have the key
/// "pending_sums", which files of earlier runs have.
std::string_view name_of(MemoryCategory category);
std::string words_of(MemoryCategory category);

/// Bytes of one rank by category.
struct MemoryTable {
  /// nullopt: unknown. `activations`, `workspace` and `input` are the shares of the arena at its
  /// fullest moment; with the first they add up to all of it.
  std::array<std::optional<std::uint64_t>, kMemoryCategories> bytes{};
  std::uint64_t arena_bytes = 0;

  std::optional<std::uint64_t>& operator[](MemoryCategory category) {
    return bytes[std::size_t(category)];
  }
  const std::optional<std::uint64_t>& operator[](MemoryCategory category) const {
    return bytes[std::size_t(category)];
  }
  /// Sum of the known categories that Lockstep reserves: all but `context`.
  std::uint64_t planned() const;
  /// The part of planned() on the device, which memory_limit limits: all but `snapshot`, `loader`
  /// and `image_decoding`, which are in host memory. Where the device is the CPU, both share one
  /// memory, and planned() has to fit it.
  std::uint64_t on_device() const;
  /// Sum of all known categories.
  std::uint64_t total() const;
};

/// Bytes of one layer: of the parameters whose names begin with its path, and of its values that
/// live in the arena at the fullest moment of the largest program.
struct LayerMemory {
  std::string layer;  ///< "layer1.0.conv1"
  std::uint64_t parameters = 0, gradients = 0, optimizer_state = 0, packed_copies = 0;
  std::uint64_t activations = 0, workspace = 0, input = 0;
  double flops = 0;  ///< of a whole micro-batch, forward and backward
};

/// FLOPs of one run of a node, by its operator's own count; a view runs no kernel.
double flops_of(const Graph& graph, const Node& node);

/// The memory of a replica, whether its parts lie on a device or on a DryBackend. `snapshot`,
/// `loader`, `image_decoding` and `context` are not known to it.
MemoryTable tabulate(const CompiledPrograms& programs,
                     const ProgramBuffers& buffers,
                     const PackedCopies& packed,
                     const ReplicaParts& parts);

/// One row a layer, in the order in which forward comes to them, then parameters that no operator
/// has the path of, "(input)", "(gradient window)", and "(alignment)": padding, and gaps in the
/// arena. Each column adds up to the category in tabulate()'s table.
std::vector<LayerMemory> by_layer(const CompiledPrograms& programs,
                                  const MemoryTable& table,
                                  const PackedCopies& packed,
                                  const Optimizer& optimizer);

}  // namespace lockstep
