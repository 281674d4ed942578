// SPDX-License-Identifier: Apache-2.0
// The flat-array functions of the CUDA backend.
#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <tuple>

#include "lockstep/error.h"
#include "tests/ops/cuda_fixture.h"
#include "tests/ops/op_case.h"
#include "tests/ops/optimizer_cases.h"
#include "tests/reference/elementwise.h"
#include "tests/reference/optimizers.h"

namespace lockstep::test {
namespace {

constexpr std::int64_t kElems = 2100;
const std::int64_t kLengths[] = {0, 1, 3, 4, 31, 1025, 4096, 4097, 3 * 4096 + 5};

/// Ranges of every kind of tail, one at an odd address, a gap between them, one empty; two tensors
/// with norms.
const std::vector<FlatRange> kRanges = {{0, 1025, 0.01f, 1.0f, 0},
                                        {1027, 3, 0.0f, 0.5f},
                                        {1030, 0, 0.1f, 1.0f},
                                        {1088, 900, 0.1f, 2.0f, 1},
                                        {1990, 98, 0.1f, 2.0f}};

/// The same elements in other ranges.
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

std::vector<float> floats(std::int64_t elems, std::uint64_t seed, float low = -1, float high = 1) {
  const HostTensor t = random_f32({elems}, seed, low, high);
  return {t.as<float>(), t.as<float>() + elems};
}

class CudaFlat : public CudaTest {};

TEST_F(CudaFlat, OptimizersFollowTheirFormulas) {
  expect_formulas(backend(), kElems, kRanges, cut(kRanges));
}

void expect_rounded(const std::vector<float>& params,
                    const std::vector<std::uint16_t>& rounded,
                    std::uint16_t untouched) {
  std::vector<std::uint16_t> expected(params.size(), untouched);
  for (const FlatRange& range : kRanges)
    for (std::int64_t i = range.offset; i < range.offset + range.elems; ++i)
      expected[std::size_t(i)] = std::uint16_t(
          std::bit_cast<std::uint32_t>(float(rounded_to_bf16(params[std::size_t(i)]))) >> 16);
  EXPECT_EQ(rounded, expected);
}

TEST_F(CudaFlat, UpdatesWriteTheRoundedParametersOfTheirRanges) {
  constexpr std::uint16_t kUntouched = 0x7abc;
  for (const Optimizer& optimizer : optimizer_cases()) {
    SCOPED_TRACE(to_string(optimizer));
    FilledState state(backend(), kElems);
    DeviceArray params(backend(), floats(kElems, 1)), grads(backend(), floats(kElems, 10));
    std::vector<std::uint16_t> rounded(kElems, kUntouched);
    const auto memory = backend().allocate(rounded.size() * sizeof(std::uint16_t), "rounded");
    backend().copy_to_device(memory->data(), rounded.data(), memory->bytes());
    run_kernels(backend(),
                {.optimizer = optimizer,
                 .params = params.data(),
                 .grads = grads.data(),
                 .state = state.arrays(),
                 .rounded = memory->as<std::uint16_t>(),
                 .lr = 0.01f},
                kRanges,
                tensors_in(kRanges));
    backend().copy_to_host(rounded.data(), memory->data(), memory->bytes());
    expect_rounded(params.values(), rounded, kUntouched);
  }
}

TEST_F(CudaFlat, AddsInPlaceAndBesides) {
  for (std::int64_t n : kLengths) {
    const std::vector<float> a = floats(n, 4), b = floats(n, 5);
    std::vector<float> sum(a);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += b[i];
    DeviceArray out(backend(), std::vector<float>(std::size_t(n), NAN)), first(backend(), a);
    DeviceArray second(backend(), b);
    backend().add(out.data(), first.data(), second.data(), n);
    EXPECT_EQ(out.values(), sum) << n;
    backend().add(first.data(), first.data(), second.data(), n);
    EXPECT_EQ(first.values(), sum) << n;
  }
}

/// As Backend::sum_tree() says, term by term.
std::vector<float> sum_of_tree(const std::vector<std::vector<float>>& terms,
                               const std::vector<int>& merges) {
  std::vector<std::vector<float>> stack;
  for (std::size_t t = 0; t < terms.size(); ++t) {
    stack.push_back(terms[t]);
    for (int m = 0; m < merges[t]; ++m) {
      const std::vector<float> top = std::move(stack.back());
      stack.pop_back();
      for (std::size_t i = 0; i < top.size(); ++i) stack.back()[i] += top[i];
    }
  }
  EXPECT_EQ(stack.size(), 1);
  return stack.front();
}

/// How often sums are merged after each of `terms` leaves of a balanced tree, or all at the end.
std::vector<int> merges_of(int terms, bool balanced) {
  std::vector<int> merges(std::size_t(terms), 0);
  int open = 0;
  for (int t = 0; t < terms; ++t) {
    ++open;
    if (balanced) merges[std::size_t(t)] = std::countr_zero(unsigned(t + 1));
    if (t + 1 == terms) merges[std::size_t(t)] = open - 1;
    open -= merges[std::size_t(t)];
  }
  return merges;
}

// Pieces of all sizes, for which a thread takes one, two or four elements and blocks differ.
TEST_F(CudaFlat, SumsTreesInTheirOrder) {
  constexpr std::int64_t kMax = 4096 + 7;
  for (const auto& [terms, balanced, shift, elems] : {std::tuple{1, true, 0, kMax},
                                                      {2, true, 0, kMax},
                                                      {3, true, 1, kMax},
                                                      {7, true, 0, kMax},
                                                      {8, false, 0, kMax},
                                                      {8, true, 2, kMax},
                                                      {9, true, 0, kMax},
                                                      {10, true, 0, 1L},
                                                      {17, true, 0, 67L},
                                                      {20, false, 2, 300L},
                                                      {32, true, 0, 130L},
                                                      {32, true, 0, 515L},
                                                      {33, true, 0, 300L},
                                                      {34, false, 0, 1100L},
                                                      {65, true, 2, 90L},
                                                      {100, true, 1, 300L},
                                                      {130, true, 0, 2050L},
                                                      {600, true, 0, 33L},
                                                      {600, true, 0, 70L}}) {
    std::vector<std::vector<float>> values;
    std::vector<std::unique_ptr<DeviceArray>> arrays;
    std::vector<TreeTerm> tree;
    const std::vector<int> merges = merges_of(terms, balanced);
    for (int t = 0; t < terms; ++t) {
      values.push_back(floats(elems, 40 + std::uint64_t(t)));
      std::vector<float> shifted(std::size_t(shift), NAN);
      shifted.insert(shifted.end(), values.back().begin(), values.back().end());
      arrays.push_back(std::make_unique<DeviceArray>(backend(), shifted));
      tree.push_back({arrays.back()->data() + shift, merges[std::size_t(t)]});
    }
    const std::vector<float> expected = sum_of_tree(values, merges);
    DeviceArray out(backend(), std::vector<float>(std::size_t(elems), NAN));
    backend().sum_tree(tree, out.data(), elems);
    EXPECT_EQ(out.values(), expected) << terms << " terms";
    // In place of the first one, and of the last, which the exchange does.
    for (const std::size_t place : {std::size_t{0}, tree.size() - 1}) {
      for (std::size_t t = 0; t < tree.size(); ++t)
        backend().copy_to_device(
            tree[t].values, values[t].data(), std::size_t(elems) * sizeof(float));
      backend().sum_tree(tree, tree[place].values, elems);
      std::vector<float> sum(std::size_t(elems), NAN);
      backend().copy_to_host(sum.data(), tree[place].values, sum.size() * sizeof(float));
      EXPECT_EQ(sum, expected) << terms << " terms, into number " << place;
    }
  }
}

// What changes from step to step is found in device memory as it would be in the arguments.
TEST_F(CudaFlat, UpdatesReadTheirCountersFromTheDevice) {
  constexpr std::uint64_t kStep = 6;
  const auto place = backend().allocate(sizeof(StepCounters), "counters");
  for (const Optimizer& optimizer : optimizer_cases()) {
    SCOPED_TRACE(to_string(optimizer));
    const StepCounters counters{
        .step = kStep, .scalars = step_scalars(optimizer, kStep), .lr = 0.01f};
    backend().copy_to_device(place->data(), &counters, sizeof counters);
    FilledState by_value(backend(), kElems), by_counters(backend(), kElems);
    DeviceArray params(backend(), floats(kElems, 1)), same_params(backend(), floats(kElems, 1));
    DeviceArray grads(backend(), floats(kElems, 3)), same_grads(backend(), floats(kElems, 3));
    OptimizerUpdate update{.optimizer = optimizer,
                           .params = params.data(),
                           .grads = grads.data(),
                           .state = by_value.arrays(),
                           .lr = 0.01f,
                           .grad_scale = 0.5f,
                           .step = kStep};
    run_kernels(backend(), update, kRanges, tensors_in(kRanges));
    update.params = same_params.data();
    update.grads = same_grads.data();
    update.state = by_counters.arrays();
    update.lr = NAN;
    update.step = 0;
    update.counters = place->as<StepCounters>();
    run_kernels(backend(), update, kRanges, tensors_in(kRanges));
    EXPECT_EQ(same_params.values(), params.values());
    EXPECT_EQ(by_counters.values(), by_value.values());
  }
}

TEST_F(CudaFlat, SquaredNormsAgreeWithDoubleAndNotOnTheirPlace) {
  std::vector<FlatRange> together;
  std::vector<float> all;
  for (std::int64_t n : kLengths) {
    together.push_back({.offset = std::int64_t(all.size()), .elems = n});
    const std::vector<float> values = floats(n, 1 + std::uint64_t(n));
    all.insert(all.end(), values.begin(), values.end());
    all.push_back(NAN);  // between ranges: never read, and odd places for the next
  }
  DeviceArray values(backend(), all);
  std::vector<double> norms(together.size(), -1);
  backend().squared_norms(values.data(), together, norms.data());
  for (std::size_t r = 0; r < together.size(); ++r) {
    const auto begin = all.begin() + together[r].offset;
    const std::vector<float> own(begin, begin + together[r].elems);
    double expected = 0;
    for (float x : own) expected += double(x) * double(x);
    // Squares of fp32 values are exact in fp64; each of n additions rounds.
    EXPECT_NEAR(norms[r], expected, 0x1p-53 * double(own.size()) * expected) << own.size();
    DeviceArray alone(backend(), own);
    const FlatRange range{.offset = 0, .elems = together[r].elems};
    double norm = -1;
    backend().squared_norms(alone.data(), {&range, 1}, &norm);
    EXPECT_EQ(norm, norms[r]) << own.size() << " elements elsewhere";
  }
}

TEST_F(CudaFlat, RunningStatisticsMoveTowardsTheirWeightedSums) {
  // More than a table holds, of lengths that fill tiles, parts of them, several, and none.
  std::vector<RunningStatistic> statistics;
  std::int64_t elems = 2;  // the weights
  for (int i = 0; i < 260; ++i) {
    const std::int64_t length = kLengths[std::size_t(i) % std::size(kLengths)];
    const RunningStatistic s{elems, length, i % 2, i % 3 == 0 ? 0.1f : 0.01f};
    statistics.push_back(s);
    elems += length + i % 2;
  }
  const std::vector<float> before = floats(elems, 6), sums = floats(elems, 7);
  DeviceArray values(backend(), before), sum(backend(), sums);
  backend().update_running_statistics(values.data(), sum.data(), statistics, nullptr);
  const std::vector<float> got = values.values();
  std::vector<double> want(before.begin(), before.end());
  for (const RunningStatistic& s : statistics)
    for (auto i = std::size_t(s.offset); i < std::size_t(s.offset + s.elems); ++i)
      want[i] +=
          double(s.momentum) * (double(sums[i]) - double(sums[std::size_t(s.weight)]) * want[i]);
  for (std::size_t i = 0; i < got.size(); ++i)
    // Four roundings of values below 2.
    ASSERT_NEAR(got[i], want[i], 4 * 0x1p-23) << i;
}

}  // namespace
}  // namespace lockstep::test
