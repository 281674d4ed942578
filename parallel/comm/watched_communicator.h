// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/exec/communicator.h"
#include "core/exec/position.h"

namespace lockstep {

/// `inner`, with a note in `position` of every collective that this rank waits in (but for those
/// inside another), so that a watchdog can say who is missing where. Communicators split off it are
/// watched as well. Allocates nothing when steady.
///
/// `checked`: before each collective, the started ones included, ranks compare what they are about
/// to do: operation, root, sizes. Where that differs, all throw CommError naming two ranks' calls,
/// before any buffer is touched. A started collective is compared without waiting, and starts once
/// all agree: started collectives of a communicator begin in the order of the calls. Costs a
/// message for each collective, and copies of the blocks; for finding mistakes.
std::unique_ptr<Communicator> make_watched_communicator(std::unique_ptr<Communicator> inner,
                                                        Position& position,
                                                        bool checked);

}  // namespace lockstep
