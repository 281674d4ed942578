// SPDX-License-Identifier: Apache-2.0
#include "parallel/monitor/run_queue.h"

#include <cstdint>
#include <fstream>

namespace lockstep {

std::optional<double> run_queue_wait() {
  std::ifstream stream("/proc/thread-self/schedstat");
  std::uint64_t ran_ns = 0, waited_ns = 0;
  if (!(stream >> ran_ns >> waited_ns)) return std::nullopt;
  return double(waited_ns) * 1e-9;
}

}  // namespace lockstep
