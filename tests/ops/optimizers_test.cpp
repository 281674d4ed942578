// SPDX-License-Identifier: Apache-2.0
#include "tests/reference/optimizers.h"

#include <cmath>
#include <gtest/gtest.h>

#include "kernels/cpu/cpu_backend.h"
#include "tests/ops/each_isa.h"
#include "tests/ops/op_case.h"

namespace lockstep::test {
namespace {

constexpr std::int64_t kElems = 2100;

/// Ranges of every kind of tail, one at an odd address, a gap between them, one empty.
const std::vector<FlatRange> kRanges = {
    {0, 1025, 0.01f, 1.0f}, {1027, 3, 0.0f, 0.5f}, {1030, 0, 0.1f, 1.0f}, {1088, 1000, 0.1f, 2.0f}};

struct FloatState {
  std::vector<float> params, first_moment, second_moment;
};

std::vector<float> floats(std::uint64_t seed, float low, float high) {
  const HostTensor t = random_f32({kElems}, seed, low, high);
  return {t.as<float>(), t.as<float>() + kElems};
}

std::vector<double> doubles(const std::vector<float>& v) { return {v.begin(), v.end()}; }

FloatState fresh_state() {
  const std::vector<float> zero(kElems);
  return {floats(1, -1, 1), zero, zero};
}

/// Values are below 4; each of `steps` steps makes about `roundings` of them.
void expect_close(const std::vector<float>& got,
                  const std::vector<double>& want,
                  int steps,
                  int roundings) {
  const double allowed = 4 * 0x1p-24 * steps * roundings;
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], want[i], allowed) << "element " << i;
}

/// The same ranges, cut at arbitrary places.
std::vector<FlatRange> cut(const std::vector<FlatRange>& ranges) {
  std::vector<FlatRange> pieces;
  for (FlatRange r : ranges)
    for (std::int64_t step = 5; r.elems > 0; step = step * 3 + 1) {
      FlatRange piece = r;
      piece.elems = std::min(step, r.elems);
      r.offset += piece.elems;
      r.elems -= piece.elems;
      pieces.push_back(piece);
    }
  return pieces;
}

OptimizerUpdate update_of(const Optimizer& optimizer,
                          FloatState& s,
                          const std::vector<float>& grads,
                          std::uint64_t step = 0) {
  return {.optimizer = optimizer,
          .params = s.params.data(),
          .grads = grads.data(),
          .state = {s.first_moment.data(), s.second_moment.data()},
          .lr = learning_rate(optimizer),
          .grad_scale = 0.5f,
          .step = step};
}

TEST(Sgd, FollowsTheFormula) {
  for_each_isa([] {
    const auto backend = make_cpu_backend();
    for (const Sgd& sgd : {Sgd{}, Sgd{.momentum = 0.9f}, Sgd{.momentum = 0.9f, .nesterov = true}}) {
      SCOPED_TRACE(to_string(sgd));
      FloatState state = fresh_state(), pieces = state;
      state.first_moment.assign(kElems, NAN);  // the first step must not read it
      pieces.first_moment = state.first_moment;
      ReferenceState expected{doubles(state.params), std::vector<double>(kElems), {}};
      for (std::uint64_t step = 0; step < 3; ++step) {
        const std::vector<float> grads = floats(10 + step, -1, 1);
        const OptimizerUpdate update = update_of(sgd, state, grads, step);
        backend->optimizer_update(update, kRanges);
        sgd_reference(expected, doubles(grads), update, kRanges);
        backend->optimizer_update(update_of(sgd, pieces, grads, step), cut(kRanges));
      }
      expect_close(state.params, expected.params, 3, 6);
      EXPECT_EQ(state.params, pieces.params) << "cutting ranges changed bits";
    }
  });
}

TEST(AdamW, FollowsTheFormula) {
  for_each_isa([] {
    const auto backend = make_cpu_backend();
    const AdamW adamw{.lr = 0.01f};
    FloatState state = fresh_state(), pieces = state;
    const std::vector<double> zero(kElems);
    ReferenceState expected{doubles(state.params), zero, zero};
    for (std::uint64_t step = 0; step < 3; ++step) {
      const std::vector<float> grads = floats(21 + step, 0.1f, 1);
      const OptimizerUpdate update = update_of(adamw, state, grads, step);
      backend->optimizer_update(update, kRanges);
      adamw_reference(expected, doubles(grads), update, kRanges);
      backend->optimizer_update(update_of(adamw, pieces, grads, step), cut(kRanges));
    }
    expect_close(state.params, expected.params, 3, 10);
    expect_close(state.first_moment, expected.first_moment, 3, 4);
    expect_close(state.second_moment, expected.second_moment, 3, 4);
    EXPECT_EQ(state.params, pieces.params) << "cutting ranges changed bits";
    EXPECT_EQ(state.second_moment, pieces.second_moment) << "cutting ranges changed bits";
  });
}

TEST(AdamW, ZeroGradientsOnlyDecay) {
  for_each_isa([] {
    FloatState state = fresh_state();
    const std::vector<float> grads(kElems), before = state.params;
    make_cpu_backend()->optimizer_update(update_of(AdamW{.lr = 0.01f}, state, grads), kRanges);
    EXPECT_FLOAT_EQ(state.params[0], before[0] * (1 - 0.01f * 0.01f));
    EXPECT_EQ(state.params[1028], before[1028]) << "this range has no decay";
    EXPECT_EQ(state.params[1026], before[1026]) << "this element is in no range";
  });
}

}  // namespace
}  // namespace lockstep::test
