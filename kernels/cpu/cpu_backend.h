// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/exec/backend.h"

namespace lockstep {

/// The CPU as a device: oneDNN and own vectorised loops, one thread a rank.
/// Throws EnvironmentError: the processor lacks AVX2.
std::unique_ptr<Backend> make_cpu_backend();

/// Whether oneDNN is built in; otherwise GEMMs and convolutions are plain loops, several times
/// slower.
bool cpu_backend_has_onednn();

}  // namespace lockstep
