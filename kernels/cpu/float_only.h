// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/error.h"
#include "core/exec/kernel.h"

namespace lockstep::cpu {

/// Throws ShapeError where an input or output of `spec` is bf16: the kernel has fp32 loops only.
inline void expect_f32(const KernelSpec& spec) {
  const auto check = [&](const TensorType& type) {
    LOCKSTEP_CHECK(type.dtype != DType::bf16,
                   ShapeError,
                   "{} {}: this kernel of the CPU backend takes f32, got {}",
                   name_of(spec.op.kind()),
                   spec.path,
                   type.to_string());
  };
  for (const TensorType& type : spec.inputs) check(type);
  for (const TensorType& type : spec.outputs) check(type);
}

}  // namespace lockstep::cpu
