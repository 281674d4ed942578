// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/series.h"

#include <algorithm>
#include <cmath>

namespace lockstep::report {

void Bucket::take(const Bucket& later) {
  last_step = later.last_step;
  if (later.least.value < least.value) least = later.least;
  if (later.greatest.value > greatest.value) greatest = later.greatest;
  weighted_sum += later.weighted_sum;
  weight += later.weight;
  records += later.records;
}

void Series::add(double step, double value, double weight) {
  const bool is_rate = values_ == Values::rates;
  constexpr double kMinRate = 1e-60;
  if (!(std::abs(value) <= kLargest) || (is_rate && value < kMinRate)) {
    ++not_finite_;
    gap_ = true;
    return;
  }
  const Point point{step, value};
  const double summed = is_rate ? weight / value : weight * value;
  const Bucket record{step, step, point, point, summed, weight, 1, gap_, is_rate};
  gap_ = false;
  if (!buckets_.empty() && !record.after_gap && buckets_.back().records < records_a_bucket_) {
    buckets_.back().take(record);
    return;
  }
  if (buckets_.size() == kMaxBuckets) halve();
  buckets_.push_back(record);
}

void Series::halve() {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < buckets_.size(); i += 2, ++kept) {
    buckets_[kept] = buckets_[i];
    if (i + 1 < buckets_.size()) buckets_[kept].take(buckets_[i + 1]);
  }
  buckets_.resize(kept);
  records_a_bucket_ *= 2;
}

void Series::drop_after(double step) {
  while (!buckets_.empty() && buckets_.back().first_step > step) buckets_.pop_back();
  if (!buckets_.empty()) {  // so that steps stay in order
    Bucket& last = buckets_.back();
    for (double* place : {&last.last_step, &last.least.step, &last.greatest.step})
      *place = std::min(*place, step);
  }
  gap_ = true;
}

std::int64_t Series::records() const {
  std::int64_t sum = 0;
  for (const Bucket& bucket : buckets_) sum += bucket.records;
  return sum;
}

double Series::least() const {
  double least = std::numeric_limits<double>::infinity();
  for (const Bucket& bucket : buckets_) least = std::min(least, bucket.least.value);
  return least;
}

double Series::greatest() const {
  double greatest = -std::numeric_limits<double>::infinity();
  for (const Bucket& bucket : buckets_) greatest = std::max(greatest, bucket.greatest.value);
  return greatest;
}

double Series::mean() const {
  Bucket all{.of_rates = values_ == Values::rates};
  for (const Bucket& bucket : buckets_) all.take(bucket);
  return all.mean();
}

std::optional<double> Series::mean_between(double after, double until) const {
  const auto ends_before = [](const Bucket& bucket, double step) {
    return bucket.last_step <= step;
  };
  auto bucket = std::lower_bound(buckets_.begin(), buckets_.end(), after, ends_before);
  Bucket all{.of_rates = values_ == Values::rates};
  for (; bucket != buckets_.end() && bucket->last_step <= until; ++bucket) all.take(*bucket);
  return all.records > 0 ? std::optional(all.mean()) : std::nullopt;
}

std::vector<Bucket> Series::joined(std::size_t most) const {
  if (buckets_.size() <= most) return buckets_;
  std::vector<Bucket> result;
  const double width = (last_step() - first_step()) / double(most);
  std::size_t place = 0;
  for (const Bucket& bucket : buckets_) {
    const double offset = width > 0 ? (bucket.first_step - first_step()) / width : 0;
    const auto here = std::size_t(std::clamp(offset, 0.0, double(most - 1)));
    if (result.empty() || here != place)
      result.push_back(bucket);
    else
      result.back().take(bucket);
    place = here;
  }
  return result;
}

std::vector<Point> extremes(const Series& series, std::size_t most) {
  std::vector<Point> points;
  std::vector<Bucket> buckets = series.joined(most);
  const auto single = [](const Bucket& bucket) { return bucket.records == 1; };
  if (!std::all_of(buckets.begin(), buckets.end(), single)) buckets = series.joined(most / 2);
  for (const Bucket& bucket : buckets) {
    if (bucket.after_gap && !points.empty())
      points.push_back({bucket.first_step, std::numeric_limits<double>::quiet_NaN()});
    const bool falls = bucket.greatest.step < bucket.least.step;
    points.push_back(falls ? bucket.greatest : bucket.least);
    if (bucket.least.step != bucket.greatest.step)
      points.push_back(falls ? bucket.least : bucket.greatest);
  }
  return points;
}

std::vector<Point> means(const Series& series, std::size_t most) {
  std::vector<Point> points;
  for (const Bucket& bucket : series.joined(most)) {
    if (bucket.after_gap && !points.empty())
      points.push_back({bucket.first_step, std::numeric_limits<double>::quiet_NaN()});
    points.push_back({(bucket.first_step + bucket.last_step) / 2, bucket.mean()});
  }
  return points;
}

}  // namespace lockstep::report
