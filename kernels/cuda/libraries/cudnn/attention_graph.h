// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/cuda/attention/fused_attention.h"
#include "kernels/cuda/libraries/cudnn/attention_cut.h"
#include "kernels/cuda/libraries/cudnn/cudnn_descriptor.h"

namespace lockstep::cuda {

/// What tensors are called between a graph and the pointers it is run with.
enum AttentionTensor : std::int64_t {
  kQueries = 1,
  kKeys,
  kValues,
  kAttended,  ///< y
  kLse,
  kAttendedGradient,
  kQueriesGradient,
  kKeysGradient,
  kValuesGradient,
  kDeltas,       ///< dy . y of every row; backward stores it in memory of its own
  kScale,        ///< by value, f32: 1 / sqrt(depth)
  kHiddenScore,  ///< by value, f32: the score of a key that a query does not see; where causal
  kOne,          ///< by value, f32: 1; backward
  kFirstBetween  ///< tensors that live in a kernel's registers
};

/// The operations of one part of an attention as cuDNN's backend interface describes them, in the
/// order in which its fused engines look for them: GEMMs, pointwise operations and reductions (Note
/// [Attention by cuDNN]). Needs no device. Throws what check(cudnnStatus_t) throws, with `what`.
std::vector<CudnnDescriptor> describe_attention(const FusedAttentionSpec& spec,
                                                const AttentionCut& part,
                                                const std::string& what);

}  // namespace lockstep::cuda
