// SPDX-License-Identifier: Apache-2.0
#include "parallel/monitor/spike_watch.h"

#include <algorithm>
#include <cmath>

namespace lockstep {

double SpikeWatch::spread() const { return std::sqrt(statistics_.variance); }

bool SpikeWatch::spikes(double loss) {
  LossStatistics& s = statistics_;
  if (s.count >= kWarmUp && loss > s.mean + kSpreads * spread() && loss > kTimesMean * s.mean)
    return true;
  ++s.count;
  const double weight = std::max(kMinWeight, 1.0 / double(s.count));
  const double distance = loss - s.mean;
  s.mean += weight * distance;
  s.variance = (1 - weight) * (s.variance + weight * distance * distance);
  return false;
}

}  // namespace lockstep
