// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace lockstep::report {

/// A value at a step.
struct Point {
  double step = 0;
  double value = 0;
};

/// Records that follow one another, as one. `weight` is the number of steps that they stand for.
struct Bucket {
  double first_step = 0, last_step = 0;
  Point least = {}, greatest = {};
  double weighted_sum = 0, weight = 0;
  std::int64_t records = 0;
  bool after_gap = false;  ///< the value before it was not finite
  bool of_rates = false;   ///< weighted_sum is of their inverses

  double mean() const { return of_rates ? weight / weighted_sum : weighted_sum / weight; }
  void take(const Bucket& later);
};

/// One quantity over the steps of a run, in memory that does not grow with the run: neighbouring
/// records are joined once there are more than kMaxBuckets, each bucket keeping its least and its
/// greatest value, so that no spike is lost, and its exact mean.
class Series {
 public:
  static constexpr std::size_t kMaxBuckets = 4096;
  /// Beyond this, a value counts as not finite: no axis could show it.
  static constexpr double kLargest = 1e60;

  /// `rates`: the mean of two steps at 1 and 3 a second is 1.5, since the first takes longer.
  /// Values must then be above 0; others leave a gap.
  enum class Values { amounts, rates };
  Series() = default;
  explicit Series(Values values) : values_(values) {}

  /// `step` is not before that of the record before. Of `weight` steps (more than 0) the value is
  /// the mean. A value that is not finite leaves a gap.
  void add(double step, double value, double weight = 1);
  /// Forgets what came after `step`; of a bucket that lies across it, nothing but where it ended.
  void drop_after(double step);

  bool empty() const { return buckets_.empty(); }
  std::int64_t records() const;
  std::int64_t not_finite() const { return not_finite_; }
  double first_step() const { return buckets_.front().first_step; }
  double last_step() const { return buckets_.back().last_step; }
  double least() const;
  double greatest() const;
  /// Over all steps; NaN of an empty series.
  double mean() const;
  /// Over the buckets that end in (after, until]; nothing where there is none.
  std::optional<double> mean_between(double after, double until) const;

  /// At most `most` buckets of equal widths in steps.
  std::vector<Bucket> joined(std::size_t most) const;

 private:
  void halve();

  Values values_ = Values::amounts;
  std::vector<Bucket> buckets_;
  std::int64_t records_a_bucket_ = 1;
  std::int64_t not_finite_ = 0;
  bool gap_ = false;
};

/// At most `most` (4 or more) points of the curve, in the order of steps: all, or of each bucket
/// the least and the greatest. A point with a NaN stands for a gap and is not counted.
std::vector<Point> extremes(const Series& series, std::size_t most);

/// At most `most` means, each at the middle of its bucket.
std::vector<Point> means(const Series& series, std::size_t most);

}  // namespace lockstep::report
