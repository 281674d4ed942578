// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "core/exec/backend.h"
#include "kernels/cuda/device/device.h"

/// Optimizers' kernels: optimizer_update() of each, enqueued on the device's compute stream, in
/// <name>.cu of this folder. A missing one is a link error.
namespace lockstep::cuda {

#define LOCKSTEP_OPTIMIZER_KERNEL(Type, name)          \
  void optimizer_update(const Device& device,          \
                        const Type& optimizer,         \
                        const OptimizerUpdate& update, \
                        std::span<const FlatRange> ranges);
LOCKSTEP_OPTIMIZERS(LOCKSTEP_OPTIMIZER_KERNEL)
#undef LOCKSTEP_OPTIMIZER_KERNEL

}  // namespace lockstep::cuda
