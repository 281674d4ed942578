// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/exec/kernel.h"
#include "core/ops/ops.h"
#include "kernels/cuda/device/device.h"

/// One factory for each operator, defined in the .cu file with the stem of the operator's header (a
/// gradient in its operator's file or, where that is long, in <stem>_bwd.cu; losses whose target
/// has the shape of the prediction in element_losses.cu). A missing one is a link error. `device`
/// outlives the kernel.
namespace lockstep::cuda {

#define LOCKSTEP_VIEW_OP(Type, stem)
#define LOCKSTEP_OP(Type, stem)                 \
  std::unique_ptr<Kernel> make_##stem##_kernel( \
      const ops::Type& op, const KernelSpec& spec, const Device& device);
#include "core/graph/op_list.inc"
#undef LOCKSTEP_OP

}  // namespace lockstep::cuda
