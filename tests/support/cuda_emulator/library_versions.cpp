// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/library_versions.h"

namespace lockstep::cuda {

std::string library_versions() { return "emulated libraries"; }

}  // namespace lockstep::cuda
