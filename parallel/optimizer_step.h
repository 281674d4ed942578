// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/exec/backend.h"
#include "core/graph/graph.h"
#include "core/plan/flat_space.h"
#include "parallel/flat_array.h"
#include "parallel/train_options.h"

namespace lockstep {

/// Applies exchanged gradients to the flat parameters: clipping, one fused update per bucket, and
/// the running statistics. Holds the optimizer's state arrays.
class OptimizerStep {
 public:
  /// Throws ConfigError: a no-decay pattern is no regular expression. OutOfMemory.
  OptimizerStep(Backend& backend,
                const Graph& graph,
                const FlatSpace& space,
                const TrainOptions& options,
                float* parameters,
                const float* gradients);

  /// L2 norm over all trained parameters' gradients: blocks of 4,096 elements per tensor, tensors
  /// added in declaration order, in fp64.
  double gradient_norm();
  /// Factor that brings `norm` down to `clip_norm` (Pascanu et al. 2013, algorithm 1, with
  /// PyTorch's 1e-6 in the denominator); 1 below it.
  static float clip_factor(double norm, float clip_norm);

  /// Update number `step` (from 0) of one bucket's trained parameters.
  void update_bucket(int bucket, std::int64_t step, float lr, float grad_scale);
  /// After the last bucket: value += momentum * (sum - weight * value).
  void update_running_statistics();

  std::size_t state_bytes() const;
  /// The optimizer's arrays under PyTorch's names: "momentum_buffer", or "exp_avg" and
  /// "exp_avg_sq". Laid out as the parameters are.
  std::vector<FlatArray> state_arrays();

 private:
  struct Statistic {
    std::int64_t value = 0, weight = 0, elems = 0;  // offsets into the flat arrays
    float momentum = 0;
  };

  Backend& backend_;
  Optimizer optimizer_;
  float* parameters_;
  const float* gradients_;
  std::vector<std::vector<FlatRange>> ranges_of_bucket_;
  std::vector<FlatRange> tensors_;  // in declaration order, for the norm
  std::vector<double> squared_norms_;
  std::vector<Statistic> statistics_;
  std::vector<std::unique_ptr<DeviceBuffer>> state_;
};

}  // namespace lockstep
