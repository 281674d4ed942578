// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "launcher/report/document.h"

namespace lockstep::report {

/// A row of a timeline.
struct Lane {
  struct Span {
    std::string name;
    std::string kind;  ///< spans of a kind have a colour, and a name in the legend
    double begin_s = 0, end_s = 0;
  };
  std::string group, name;  ///< "rank 0", "compute stream"
  std::vector<Span> spans;
};

/// Who was busy when: spans as bars in rows over milliseconds, which page/timeline.js draws.
struct Timeline {
  std::string id, title, description = {};
  std::string x_label = "milliseconds";
  double begin_s = 0;  ///< is 0 ms on the axis
  std::vector<Lane> lanes = {};
};

/// Of a lane with more spans the page draws the longest, and says how many it does not.
inline constexpr std::size_t kMaxLaneSpans = 2000;

/// Null where no lane has a span.
Json timeline_block(const Timeline& timeline);

}  // namespace lockstep::report
