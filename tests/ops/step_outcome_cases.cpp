// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/step_outcome_cases.h"

#include <cmath>
#include <functional>
#include <gtest/gtest.h>
#include <limits>

#include "tests/ops/op_case.h"
#include "tests/ops/optimizer_cases.h"

namespace lockstep::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = HUGE_VALF;

using Extents = std::vector<std::int64_t>;

/// Of `count` tensors, empty ones among them.
Extents mixed(std::int64_t count) {
  Extents extents;
  for (std::int64_t i = 0; i < count; ++i) extents.push_back(i % 50 == 7 ? 9000 + i : i % 41);
  return extents;
}

/// At what one block does on a GPU, and beyond: blocks of kNormBlock elements, elements, both, and
/// tensors in the arguments of a launch.
std::vector<Extents> at_limits() {
  Extents both(48, 1);
  both.push_back(65536 - 48);
  return {Extents(64, 700),
          Extents(65, 700),
          {1, 65535},
          {1, 65536},
          both,
          Extents(112, 30),
          Extents(113, 30)};
}

/// Gradients of tensors and three scalars after them.
struct Gradients {
  explicit Gradients(const Extents& extents) {
    for (const std::int64_t extent : extents) {
      const auto gap = std::int64_t(tensors.size()) % 3;
      tensors.push_back({.offset = elems, .elems = extent});
      elems += extent + gap;
    }
    const HostTensor t = random_f32({elems + 3}, 1);
    values.assign(t.as<float>(), t.as<float>() + elems + 3);
    set(0.5f, 0.25f, 0.75f);
  }
  void set(float loss, float correct, float counted) {
    values[std::size_t(elems)] = loss;
    values[std::size_t(elems) + 1] = correct;
    values[std::size_t(elems) + 2] = counted;
  }
  float& first_of(std::size_t tensor) { return values[std::size_t(tensors[tensor].offset)]; }
  StepSums sums(float clip_norm) const {
    return {.tensors = tensors,
            .loss = elems,
            .correct = elems + 1,
            .counted = elems + 2,
            .clip_norm = clip_norm};
  }

  std::int64_t elems = 0;
  std::vector<FlatRange> tensors;
  std::vector<float> values;
};

double norm_of(const Gradients& g) {
  double squares = 0;
  for (const FlatRange& tensor : g.tensors)
    for (std::int64_t i = 0; i < tensor.elems; ++i) {
      const double v = g.values[std::size_t(tensor.offset + i)];
      squares += v * v;
    }
  return std::sqrt(squares);
}

void expect_formula(const Gradients& g, const StepSums& sums, const StepOutcome& got) {
  const auto at = [&](std::int64_t offset) { return double(g.values[std::size_t(offset)]); };
  const double counted = sums.counted < 0 ? 1 : at(sums.counted);
  EXPECT_EQ(got.counted, counted);
  EXPECT_EQ(got.loss, at(sums.loss) / counted);
  EXPECT_EQ(got.correct, sums.correct < 0 ? -1 : at(sums.correct) / counted);
  const double norm = norm_of(g) / counted;
  // Each of fewer than elems fp64 additions rounds.
  const double allowed = 0x1p-53 * double(g.elems) * norm;
  EXPECT_NEAR(got.grad_norm, norm, allowed);
  const double clip =
      sums.clip_norm > 0 ? std::min(1.0, double(sums.clip_norm) / (norm + 1e-6)) : 1;
  // Two roundings to fp32.
  EXPECT_NEAR(got.grad_scale, clip / counted, 0x1p-23 * clip / counted);
  EXPECT_EQ(got.bad, 0u);
}

class Device {
 public:
  explicit Device(Backend& backend)
      : backend_(backend), outcome_(backend.allocate(sizeof(StepOutcome), "outcome")) {}

  StepOutcome* outcome() { return outcome_->as<StepOutcome>(); }
  void set(const StepOutcome& outcome) {
    backend_.copy_to_device(outcome_->data(), &outcome, sizeof outcome);
  }
  StepOutcome conclude(const Gradients& g, StepSums sums) {
    const std::size_t bytes = g.values.size() * sizeof(float);
    const auto memory = backend_.allocate(bytes, "gradients");
    backend_.copy_to_device(memory->data(), g.values.data(), bytes);
    sums.gradients = memory->as<float>();
    backend_.conclude_step(sums, outcome());
    // As a step does it: copied after everything else, and waited for by an event.
    const auto host = backend_.allocate_host(sizeof(StepOutcome), "outcome");
    const auto event = backend_.make_event();
    backend_.start_copy_to_host(host->data(), outcome(), sizeof(StepOutcome));
    backend_.record(*event);
    event->wait();
    return *host->as<StepOutcome>();
  }

 private:
  Backend& backend_;
  std::unique_ptr<DeviceBuffer> outcome_;
};

std::vector<StepOutcome> expect_outcomes_of(Backend& backend, const Gradients& g) {
  std::vector<StepOutcome> outcomes;
  Device device(backend);
  backend.reserve_norms(g.tensors);
  const auto good = [&](const StepSums& sums) {
    outcomes.push_back(device.conclude(g, sums));
    expect_formula(g, sums, outcomes.back());
  };
  const auto bad = [&](const Gradients& gradients, std::uint32_t why) {
    outcomes.push_back(device.conclude(gradients, gradients.sums(1)));
    EXPECT_EQ(outcomes.back().bad, why);
  };
  for (const float clip_norm : {0.0f, 1.0f, 1e9f}) {
    good(g.sums(clip_norm));
    StepSums plain = g.sums(clip_norm);
    plain.correct = plain.counted = -1;
    good(plain);
  }
  for (const float value : {kNan, kInf, -kInf}) {
    for (const std::size_t tensor : {std::size_t{1}, g.tensors.size() / 2, g.tensors.size() - 1}) {
      Gradients spoiled = g;
      spoiled.first_of(tensor) = value;
      bad(spoiled, StepOutcome::kNotFinite);
    }
    Gradients spoiled = g;
    spoiled.set(value, 0, 1);
    bad(spoiled, StepOutcome::kNotFinite);
  }
  Gradients largest = g;  // squares are beyond fp32, not beyond fp64
  largest.first_of(1) = std::numeric_limits<float>::max();
  bad(largest, 0);
  Gradients none = g;
  none.set(0, 0, 0);
  bad(none, StepOutcome::kNotFinite | StepOutcome::kNothingCounted);

  device.set({});
  StepSums sums = g.sums(1);
  sums.previous = device.outcome();
  Gradients spoiled = g;
  spoiled.set(kNan, 0, 1);
  EXPECT_EQ(device.conclude(g, sums).bad, 0u);
  EXPECT_EQ(device.conclude(spoiled, sums).bad, StepOutcome::kNotFinite);
  for (int step = 0; step < 2; ++step)
    EXPECT_EQ(device.conclude(g, sums).bad, StepOutcome::kAfterBad);
  device.set({});
  EXPECT_EQ(device.conclude(g, sums).bad, 0u);
  return outcomes;
}

}  // namespace

std::vector<StepOutcome> expect_outcomes(Backend& backend) {
  // More tensors than a launch takes, and few, whose norms and outcome are one launch.
  std::vector<Extents> cases{mixed(300), mixed(20)};
  for (const Extents& extents : at_limits()) cases.push_back(extents);
  std::vector<StepOutcome> outcomes;
  for (const Extents& extents : cases) {
    SCOPED_TRACE(fmt::format("{} tensors, the last of {}", extents.size(), extents.back()));
    for (const StepOutcome& outcome : expect_outcomes_of(backend, Gradients(extents)))
      outcomes.push_back(outcome);
  }
  return outcomes;
}

void expect_outcomes_to_govern_updates(Backend& backend) {
  const std::vector<FlatRange> ranges = {
      {0, 1025, 0.01f, 1.0f}, {1027, 3, 0.0f, 0.5f}, {1088, 5000, 0.1f, 2.0f, 0}};
  const std::int64_t elems = 6088;
  const HostTensor start = random_f32({(2 + kMaxOptimizerState) * elems}, 2, 0.1f, 1);
  const auto memory = backend.allocate(start.bytes.size(), "arrays");
  Device device(backend);
  float* const a = memory->as<float>();
  float* const b = a + elems;  // and behind it the state
  const StepOutcome* const outcome = device.outcome();
  const auto bytes_after = [&](const std::function<void()>& update) {
    backend.copy_to_device(a, start.bytes.data(), start.bytes.size());
    update();
    std::vector<std::byte> bytes(start.bytes.size());
    backend.copy_to_host(bytes.data(), a, bytes.size());
    return bytes;
  };
  using Update = std::function<void(float scale, const StepOutcome*)>;
  std::vector<Update> updates;
  for (const Optimizer& optimizer : optimizer_cases())
    for (const std::uint64_t step : {0u, 2u})
      updates.push_back([&, optimizer, step](float scale, const StepOutcome* o) {
        OptimizerUpdate update{.optimizer = optimizer,
                               .params = a,
                               .grads = b,
                               .lr = 0.1f,
                               .grad_scale = scale,
                               .step = step,
                               .outcome = o};
        for (int i = 0; i < state_arrays(optimizer); ++i)
          update.state[std::size_t(i)] = b + (i + 1) * elems;
        run_kernels(backend, update, ranges, tensors_in(ranges));
      });
  updates.push_back([&](float, const StepOutcome* o) {
    const RunningStatistic statistic{1, elems - 1, 0, 0.1f};
    backend.update_running_statistics(a, b, {&statistic, 1}, o);
  });
  const std::vector<std::byte> before = bytes_after([] {});
  for (std::size_t i = 0; i < updates.size(); ++i) {
    SCOPED_TRACE(i);
    for (const std::uint32_t bad :
         {StepOutcome::kNotFinite, StepOutcome::kNothingCounted, StepOutcome::kAfterBad}) {
      device.set({.grad_scale = 0.5f, .bad = bad});
      EXPECT_TRUE(bytes_after([&] { updates[i](7.0f, outcome); }) == before);
    }
    device.set({.grad_scale = 0.5f});
    const auto governed = bytes_after([&] { updates[i](7.0f, outcome); });
    EXPECT_TRUE(governed == bytes_after([&] { updates[i](0.5f, nullptr); }));
    EXPECT_FALSE(governed == before);
  }
}

}  // namespace lockstep::test
