// SPDX-License-Identifier: Apache-2.0
#include "lockstep/device_use.h"

#include <numeric>

namespace lockstep {

std::string_view name_of(DevicePart part) {
  constexpr std::array<std::string_view, kDeviceParts> kNames{
      "forward", "backward", "exchange", "optimizer", "idle"};
  return kNames[std::size_t(part)];
}

double DeviceTimes::total() const { return std::accumulate(parts.begin(), parts.end(), 0.0); }

double DeviceTimes::share(DevicePart part) const {
  const double all = total();
  return all > 0 ? (*this)[part] / all : 0;
}

DeviceTimes& DeviceTimes::operator+=(const DeviceTimes& other) {
  for (std::size_t i = 0; i < kDeviceParts; ++i) parts[i] += other.parts[i];
  return *this;
}

DeviceTimes operator*(const DeviceTimes& times, double factor) {
  DeviceTimes result;
  for (std::size_t i = 0; i < kDeviceParts; ++i) result.parts[i] = times.parts[i] * factor;
  return result;
}

}  // namespace lockstep
