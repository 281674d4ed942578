// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep::cuda {

/// A cuDNN that computes: it keeps what is set of descriptors, proposes one engine for every graph,
/// and executes a plan by the definitions of its operations, one after another, in fp32, on the
/// host's memory. What a tensor between operations is declared to be of it is rounded to. A test is
/// linked with it in the place of cudnn_library.cpp.
inline constexpr std::int64_t kFakeWorkspace = 300;

}  // namespace lockstep::cuda
