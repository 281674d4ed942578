// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep::cuda {

/// Whether `device` has the launches of Note [Dependent launches], and own kernels were compiled
/// for a compute capability whose code waits. Throws what check() throws.
bool has_dependent_launches(int device);

}  // namespace lockstep::cuda
