// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/clipping_cases.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <optional>

#include "tests/ops/op_case.h"

namespace lockstep::test {
namespace {

using Floats = std::vector<float>;

/// An array on the device, and a StepOutcome.
class ClipMemory {
 public:
  ClipMemory(Backend& backend, const void* from, std::size_t bytes)
      : backend_(backend), buffer_(backend.allocate(bytes, "clipping")) {
    backend.copy_to_device(buffer_->data(), from, bytes);
  }
  ClipMemory(Backend& backend, const Floats& values)
      : ClipMemory(backend, values.data(), values.size() * sizeof(float)) {}

  template <typename T>
  T* as() {
    return buffer_->as<T>();
  }
  Floats values() {
    Floats result(buffer_->bytes() / sizeof(float));
    backend_.copy_to_host(result.data(), buffer_->data(), buffer_->bytes());
    return result;
  }

 private:
  Backend& backend_;
  std::unique_ptr<DeviceBuffer> buffer_;
};

Floats clip_floats(std::int64_t elems, std::uint64_t seed) {
  const HostTensor t = random_f32({elems}, seed);
  return {t.as<float>(), t.as<float>() + elems};
}

const std::vector<FlatRange> kValueRanges = {{.offset = 0, .elems = 1025},
                                             {.offset = 1027, .elems = 3},
                                             {.offset = 1031, .elems = 0},
                                             {.offset = 1088, .elems = 8200},
                                             {.offset = 9300, .elems = 1}};
constexpr std::int64_t kValueElems = 9310;

Floats clipped_by_value(Backend& backend, const StepOutcome* outcome) {
  constexpr float kLimit = 0.25f;
  const Floats before = clip_floats(kValueElems, 3);
  ClipMemory gradients(backend, before);
  std::optional<ClipMemory> on_device;
  if (outcome) on_device.emplace(backend, outcome, sizeof *outcome);
  backend.clip_values(gradients.as<float>(),
                      kLimit,
                      kValueRanges,
                      outcome ? on_device->as<StepOutcome>() : nullptr);
  const float limit = outcome ? float(double(kLimit) / double(outcome->grad_scale)) : kLimit;
  Floats expected = before;
  for (const FlatRange& range : kValueRanges)
    for (auto i = std::size_t(range.offset); i < std::size_t(range.offset + range.elems); ++i)
      if (!outcome || outcome->bad == 0) expected[i] = std::clamp(before[i], -limit, limit);
  EXPECT_EQ(gradients.values(), expected);
  return gradients.values();
}

/// Matrices with short rows, rows of several blocks that begin within one, a vector of many blocks,
/// some rows of a tensor, one element.
const std::vector<UnitRange> kUnits = {{.offset = 0, .unit = 27, .first = 0, .elems = 40},
                                       {.offset = 1088, .unit = 9001, .first = 0, .elems = 3},
                                       {.offset = 28160, .unit = 12 * 4096 + 5},
                                       {.offset = 77440, .unit = 64, .first = 2, .elems = 3},
                                       {.offset = 77761, .unit = 1}};
constexpr std::int64_t kUnitElems = 77770;

/// Weights of which some units are zero, others nearly.
Floats unit_weights() {
  Floats weights = clip_floats(kUnitElems, 5);
  std::fill_n(weights.begin(), 27, 0.0f);
  for (std::size_t i = 27; i < 54; ++i) weights[i] *= 1e-6f;
  return weights;
}

/// Gradients of which every other unit is far below the limit.
Floats unit_gradients() {
  Floats gradients = clip_floats(kUnitElems, 6);
  int units = 0;
  for (const UnitRange& range : kUnits)
    for (std::int64_t u = range.first; u < range.first + range.elems; ++u)
      for (std::int64_t i = 0, small = units++ % 2 == 0; small && i < range.unit; ++i)
        gradients[std::size_t(range.offset + u * range.unit + i)] *= 1e-7f;
  return gradients;
}

double length_of(const Floats& values, std::int64_t begin, std::int64_t elems) {
  double sum = 0;
  for (auto i = std::size_t(begin); i < std::size_t(begin + elems); ++i)
    sum += double(values[i]) * double(values[i]);
  return std::sqrt(sum);
}

constexpr float kFactor = 0.03f;

void expect_units(const Floats& weights, const Floats& before, const Floats& after, float scale) {
  std::vector<double> factors(before.size(), 1);
  int clipped = 0, kept = 0;
  for (const UnitRange& range : kUnits)
    for (std::int64_t u = range.first; u < range.first + range.elems; ++u) {
      const std::int64_t begin = range.offset + u * range.unit;
      const double limit = double(kFactor) * std::max(length_of(weights, begin, range.unit), 1e-3);
      const double length = double(scale) * length_of(before, begin, range.unit);
      const double factor = length > limit ? limit / length : 1;
      std::fill_n(factors.begin() + begin, range.unit, factor);
      ++(factor < 1 ? clipped : kept);
    }
  EXPECT_GT(clipped, 10);
  EXPECT_GT(kept, 10);
  for (std::size_t i = 0; i < before.size(); ++i) {
    const double expected = factors[i] * double(before[i]);
    // Two roundings to fp32; those of fp64 sums are far below.
    if (factors[i] < 1)
      ASSERT_NEAR(after[i], expected, 2.01 * 0x1p-24 * std::abs(expected)) << i;
    else
      ASSERT_EQ(after[i], before[i]) << i;
  }
}

Floats clipped_by_unit(Backend& backend, const StepOutcome* outcome) {
  const Floats weights = unit_weights(), before = unit_gradients();
  ClipMemory on_device(backend, weights), gradients(backend, before);
  const StepOutcome good;
  ClipMemory stored(backend, outcome ? outcome : &good, sizeof good);
  backend.clip_units({.gradients = gradients.as<float>(),
                      .weights = on_device.as<float>(),
                      .factor = kFactor,
                      .outcome = outcome ? stored.as<StepOutcome>() : nullptr},
                     kUnits);
  EXPECT_EQ(on_device.values(), weights);
  if (outcome && outcome->bad != 0)
    EXPECT_EQ(gradients.values(), before);
  else
    expect_units(weights, before, gradients.values(), outcome ? outcome->grad_scale : 1.0f);
  return gradients.values();
}

/// The same units in two parts each, whose norms are given: as owners of a sharded optimizer have
/// them, here one after the other, who do not have all of the weights. `expected`: of whole units.
void expect_bits_of_parts(Backend& backend, const Floats& expected) {
  ClipMemory weights(backend, unit_weights()), gradients(backend, unit_gradients());
  ClipMemory unknown(backend, Floats(kUnitElems, NAN));
  std::vector<FlatRange> pieces;
  std::vector<std::int64_t> ends;
  std::vector<UnitRange> parts;
  for (const UnitRange& range : kUnits)
    for (std::int64_t u = range.first; u < range.first + range.elems; ++u) {
      for (std::int64_t i = u * range.unit, end = i + range.unit; i < end;) {
        const std::int64_t next = std::min(end, (i / kNormBlock + 1) * kNormBlock);
        pieces.push_back({.offset = range.offset + i, .elems = next - i});
        i = next;
      }
      UnitRange part = range;
      part.first = u;
      part.elems = 1;
      part.norm = std::int32_t(ends.size());
      part.own_elems = range.unit / 3;
      parts.push_back(part);
      part.own = part.own_elems;
      part.own_elems = range.unit - part.own;
      parts.push_back(part);
      ends.push_back(std::ssize(pieces));
    }
  const std::vector<double> none(pieces.size(), -1);
  ClipMemory squares(backend, none.data(), none.size() * sizeof(double));
  ClipMemory weight_norms(backend, none.data(), ends.size() * sizeof(double));
  ClipMemory gradient_norms(backend, none.data(), ends.size() * sizeof(double));
  backend.reserve_norms(pieces);
  backend.start_squared_norms(weights.as<float>(), pieces, squares.as<double>());
  backend.add_in_order(squares.as<double>(), ends, weight_norms.as<double>());
  backend.start_squared_norms(gradients.as<float>(), pieces, squares.as<double>());
  backend.add_in_order(squares.as<double>(), ends, gradient_norms.as<double>());
  backend.clip_units({.gradients = gradients.as<float>(),
                      .weights = unknown.as<float>(),
                      .factor = kFactor,
                      .weight_norms = weight_norms.as<double>(),
                      .gradient_norms = gradient_norms.as<double>()},
                     parts);
  EXPECT_EQ(gradients.values(), expected);
}

}  // namespace

std::vector<Floats> expect_clipping(Backend& backend) {
  StepOutcome scaled, bad;
  scaled.grad_scale = 1.0f / 0.7f;
  bad.bad = StepOutcome::kNotFinite;
  std::vector<Floats> results;
  const StepOutcome* const outcomes[] = {nullptr, &scaled, &bad};
  for (const StepOutcome* outcome : outcomes) {
    results.push_back(clipped_by_value(backend, outcome));
    results.push_back(clipped_by_unit(backend, outcome));
  }
  expect_bits_of_parts(backend, results[1]);
  return results;
}

}  // namespace lockstep::test
