// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lockstep::report {

/// What an axis counts, which its labels say.
enum class Unit { plain, bytes, percent };

struct Tick {
  double value = 0;
  std::string label;
};

/// One axis of a chart: its ends, and round values between them.
struct Axis {
  double from = 0, to = 1;
  bool logarithmic = false;
  std::vector<Tick> ticks;

  /// 0 at `from`, 1 at `to`; values beyond are kept at the ends.
  double place(double value) const;
};

/// An axis over [least, greatest] with about `count` ticks at 1, 2 or 5 times a power of ten (of
/// two for bytes). Ends are rounded outwards to ticks where `rounded`. A range that is empty, or
/// not finite, gets one that can be drawn.
enum class Ends { as_given, rounded };
Axis linear_axis(double least, double greatest, int count, Ends ends, Unit unit = Unit::plain);

/// Both ends above 0.
Axis logarithmic_axis(double least, double greatest);

/// "20k", "1.5M", "0.02", "512 MiB", "40%"
std::string tick_label(double value, double step, Unit unit);

}  // namespace lockstep::report
