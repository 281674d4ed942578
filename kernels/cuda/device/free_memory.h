// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

namespace lockstep::cuda {

/// Bytes that are free on device `ordinal`, by the driver's management library (NVML), which needs
/// no context on the device and so makes none. Nothing: it does not say, or the device is a part of
/// a divided one (MIG), of which it knows the whole.
std::optional<std::uint64_t> free_without_context(int ordinal);

}  // namespace lockstep::cuda
