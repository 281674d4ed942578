// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "core/exec/backend.h"
#include "core/graph/operator.h"

namespace lockstep {

/// The least seconds in which a device with these peaks does `cost`: max(flops / peak flops,
/// bytes / peak bytes). `bf16`: arithmetic in bf16, which has a peak of its own where the device
/// multiplies it. Williams, Waterman and Patterson 2009, "Roofline".
inline double min_seconds(const Cost& cost, bool bf16, const DevicePeaks& peaks) {
  const double flops = bf16 && peaks.bf16_flops > 0 ? peaks.bf16_flops : peaks.fp32_flops;
  return std::max(cost.flops / flops, cost.bytes / peaks.bytes);
}

/// Whether a node with these inputs computes in bf16.
inline bool computes_in_bf16(std::span<const TensorType> inputs) {
  return !inputs.empty() && inputs[0].dtype == DType::bf16;
}

}  // namespace lockstep
