// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/plan/memory_use.h"

namespace lockstep {

/// Part of an order: positions begin <= i < end, at most kWidest of them.
struct OrderWindow {
  static constexpr std::size_t kWidest = 64;
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// The nodes of `window` in the order with the smallest peak of live bytes among all orders of
/// them, if that is below `limit`; nothing if not, or if `budget` sets of nodes did not suffice to
/// know (it is reduced by those looked at). `live` bytes are live before the window. The rest of
/// `order` keeps its live bytes (Note [Live bytes and order]).
///
/// Searches the sets of nodes that can have run, from the one whose way there had the smallest
/// peak, dropping ways that reach `limit`: the dynamic programme with a budget of Ahn et al. 2020,
/// "Ordering Chaos: Memory-Aware Scheduling of Irregularly Wired Neural Networks for Edge Devices",
/// section 3, walked best first. A node that can run within the peak so far and leaves no more live
/// bytes than before is run without a choice: in any order it could be moved here, and every set on
/// the way would have fewer live bytes.
std::vector<NodeId> search_window(const MemoryUse& use,
                                  const std::vector<NodeId>& order,
                                  OrderWindow window,
                                  std::size_t live,
                                  std::size_t limit,
                                  int& budget);

}  // namespace lockstep
