// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/exec/kernel.h"
#include "core/ops/ops.h"

/// One factory for each operator, defined in the file with the stem of the operator's header
/// (gradients in addition to the forward kernel). A missing one is a link error.
namespace lockstep::cpu {

#define LOCKSTEP_VIEW_OP(Type, stem)
#define LOCKSTEP_OP(Type, stem) \
  std::unique_ptr<Kernel> make_##stem##_kernel(const ops::Type& op, const KernelSpec& spec);
#include "core/graph/op_list.inc"
#undef LOCKSTEP_OP

}  // namespace lockstep::cpu
