// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "lockstep/data/dataset.h"

namespace lockstep::data {

/// What targets that do not count are set to; PyTorch's default.
inline constexpr std::int32_t kIgnoreIndex = -100;

/// The same samples, but those of class `label` count in neither loss nor accuracy. For sources of
/// one class a sample.
std::shared_ptr<const Dataset> ignore_label(std::shared_ptr<const Dataset> dataset,
                                            std::int32_t label);

}  // namespace lockstep::data
