// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <gmock/gmock.h>
#include <string_view>

namespace lockstep::testing {

/// An entry of TrainSummary::memory. Numbers of a step that lie on the device and outside of it
/// make some hundreds of bytes of difference.
inline auto context_near(std::uint64_t bytes) {
  constexpr double kAlmost = 4096;
  const auto is_near = [=](std::uint64_t counted) {
    return std::abs(double(counted) - double(bytes)) < kAlmost;
  };
  return ::testing::Pair(std::string_view("context_and_libraries"), ::testing::Truly(is_near));
}

}  // namespace lockstep::testing
