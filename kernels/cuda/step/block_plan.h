// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "kernels/cuda/step/block_step.cuh"

/// What a block program reads from where: see Note [Small programs] in fused_small_kernels.h.
namespace lockstep::cuda {

/// A matrix that is copied to shared memory, a word an element.
struct BlockLoad {
  const float* from;
  Inverse by_columns;
  StagedAt at;
  std::int16_t columns;
};

/// The argument of its kernel.
struct BlockProgram {
  static constexpr int kMax = 24, kMaxLoads = 16;
  std::int32_t count;
  std::int32_t load_ends[kMaxLoads];  ///< elements of a load and of all before it; after all: max
  BlockLoad loads[kMaxLoads];
  BlockStep steps[kMax];
};
static_assert(sizeof(BlockProgram) <= 3840, "the arguments of a kernel have 4 KiB");

/// Builds a program step by step. A matrix is staged in shared memory when a step first reads or
/// writes it, and read from there by the steps after it. Where no more fit, all are given up, and
/// what the next steps read is loaded again.
class BlockPlanner {
 public:
  BlockPlanner() { std::ranges::fill(program_.load_ends, INT32_MAX); }
  /// False, and nothing has changed: the program has no place for `step`.
  bool add(BlockStep step);
  const BlockProgram& program() const { return program_; }

 private:
  struct Bytes {
    const void* begin;
    std::size_t size;
    bool overlaps(const Bytes& other) const;
    bool operator==(const Bytes&) const = default;
  };
  /// Of a step: what it does with a matrix.
  struct Use {
    const void* memory;  ///< null: nothing
    int rows, columns;
    StagedAt* at;                                   ///< null: never staged
    enum class Kind { needs, reads, writes } kind;  ///< needs: it reads shared memory alone
    bool own_elements = false;                      ///< thread t uses elements t, t + threads, ...
    bool after_meeting = false;                     ///< of the threads, within the step
    Bytes bytes() const;
  };
  struct Matrix {
    Bytes bytes;
    int columns;
    StagedAt at;
  };

  static std::vector<Use> uses_of(BlockStep& step);
  static std::vector<Use> uses_of(SmallElementwise& step);
  bool add_changed(BlockStep& step);
  bool fuse(BlockStep& step);
  bool stage_inputs(const std::vector<Use>& uses);
  void stage_outputs(const std::vector<Use>& uses);
  std::optional<Matrix> stage_elementwise(SmallElementwise& step);
  const Matrix* find(const Bytes& bytes) const;
  StagedAt reserve(int rows, int columns);
  bool load(const Use& use);
  bool must_meet(const std::vector<Use>& uses) const;
  void note_uses(const std::vector<Use>& uses);
  void give_up();

  BlockProgram program_{};
  int loads_ = 0, staged_end_ = kFirstStaged;
  int first_step_ = 0;  // since matrices were last given up
  std::vector<Matrix> staged_;
  std::vector<Bytes> written_;  // as well
  std::vector<Use> uses_;       // since threads last met
};

}  // namespace lockstep::cuda
