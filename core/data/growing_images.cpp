// SPDX-License-Identifier: Apache-2.0
#include "core/data/growing_images.h"

#include <algorithm>

#include "core/base/check.h"

namespace lockstep::data {
namespace {

constexpr std::int64_t kMultiple = 32;

}  // namespace

int ImageGrowth::side(std::int64_t epoch) const {
  if (epoch >= epochs - 1) return last;
  if (epoch == 0) return first;
  // In whole numbers, as all ranks must agree: the size is first + grown / steps.
  const std::int64_t steps = epochs - 1, grown = (last - first) * epoch;
  const std::int64_t unit = kMultiple * steps;
  const std::int64_t rounded = kMultiple * ((first * steps + grown + unit / 2) / unit);
  return int(std::clamp<std::int64_t>(rounded, first, last));
}

std::vector<int> ImageGrowth::sides() const {
  // Of more epochs than sizes can differ, an even choice has them all.
  constexpr std::int64_t kLookedAt = 1 << 16;
  std::vector<int> all{last};
  const std::int64_t stride = std::max<std::int64_t>(1, epochs / kLookedAt);
  for (std::int64_t epoch = (epochs - 1) / stride * stride; epoch >= 0; epoch -= stride)
    if (const int one = side(epoch); one != all.back()) all.push_back(one);
  return all;
}

GrowingImages::GrowingImages(std::shared_ptr<const Dataset> last, const ImageGrowth& growth)
    : ForwardingDataset(last), growth_(growth), sides_(growth.sides()), datasets_{std::move(last)} {
  const Shape& shape = spec().input.shape;
  const bool square = shape.rank() == 3 && shape[0] == shape[1] && shape[0] == growth_.last;
  for (std::size_t i = 1; i < sides_.size() && square; ++i)
    datasets_.push_back(datasets_.front()->resized(sides_[i]));
  LOCKSTEP_CHECK(
      square && std::ranges::all_of(datasets_, [](const auto& d) { return d != nullptr; }),
      ConfigError,
      "`image_size` {}:{}: {} makes no images of other sizes",
      growth_.first,
      growth_.last,
      datasets_.front()->describe());
  for (const auto& dataset : datasets_) specs_.push_back(dataset->spec());
}

std::size_t GrowingImages::spec_of(std::uint64_t epoch) const {
  const int side = growth_.side(std::int64_t(epoch));
  return std::size_t(std::ranges::find(sides_, side) - sides_.begin());
}

std::string GrowingImages::describe() const {
  return fmt::format(
      "{}, growing from {}x{} over the epochs", inner().describe(), growth_.first, growth_.first);
}

}  // namespace lockstep::data
