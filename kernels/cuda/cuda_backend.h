// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/exec/backend.h"

namespace lockstep {

/// GPU `device`, an ordinal among the visible ones, through cuBLASLt, cuDNN and own kernels.
/// Selects the device before it allocates anything, so that no context is left on another one. Work
/// is enqueued on one stream; copy_to_host(), squared_norms(), hash() and copy_to_device() from
/// pageable memory wait for it. Throws EnvironmentError: not built in, no such device;
/// device_class() and make_kernel() where libraries are missing, of another major version or older
/// than what this was built against.
std::unique_ptr<Backend> make_cuda_backend(int device);

}  // namespace lockstep
