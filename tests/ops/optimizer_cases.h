// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <gtest/gtest.h>
#include <memory>
#include <string_view>
#include <vector>

#include "core/exec/backend.h"
#include "core/optim/optimizer.h"
#include "tests/ops/op_case.h"
#include "tests/reference/optimizers.h"

namespace lockstep::test {

/// Every optimizer with its defaults, and those whose kernels take another path by a setting.
inline std::vector<Optimizer> optimizer_cases() {
  std::vector<Optimizer> cases;
  for (const std::string_view name : optimizer_names()) cases.push_back(make_optimizer(name));
  cases.push_back(Sgd{.momentum = 0.9f});
  cases.push_back(Sgd{.momentum = 0.9f, .nesterov = true});
  cases.push_back(RmsProp{.momentum = 0.9f});
  cases.push_back(RmsProp{.centered = true});
  cases.push_back(RmsProp{.momentum = 0.9f, .centered = true});
  return cases;
}

/// Rows of tensors, kReferenceRows each; those of tensors that `ranges` cut in parts, whose norms
/// are given by index: row r of tensor t has t * kReferenceRows + r.
inline std::vector<UnitRange> rows_of(const std::vector<FlatRange>& ranges,
                                      const std::vector<FlatRange>& tensors) {
  std::vector<UnitRange> rows;
  for (const FlatRange& range : ranges) {
    const FlatRange& tensor = tensors[std::size_t(range.tensor)];
    const std::int64_t unit = tensor.elems / kReferenceRows;
    if (range.elems == tensor.elems) {
      rows.push_back({.offset = tensor.offset, .unit = unit, .elems = kReferenceRows});
      continue;
    }
    const std::int64_t begin = range.offset - tensor.offset, end = begin + range.elems;
    for (std::int64_t i = begin; i < end;) {
      const std::int64_t row = i / unit, next = std::min(end, (row + 1) * unit);
      rows.push_back({.offset = tensor.offset,
                      .unit = unit,
                      .first = row,
                      .norm = std::int32_t(range.tensor * kReferenceRows + row),
                      .own = i - row * unit,
                      .own_elems = next - i});
      i = next;
    }
  }
  return rows;
}

/// All phases of an update that kernels do, as OptimizerStep does them: `orthogonalize` leaves
/// directions as they are. `tensors`: each with its FlatRange::tensor, 0, 1, ...; `ranges` are cuts
/// of these, and ranges of none.
inline void run_kernels(Backend& backend,
                        OptimizerUpdate update,
                        const std::vector<FlatRange>& ranges,
                        const std::vector<FlatRange>& tensors = {}) {
  std::vector<FlatRange> of_tensors, others;
  for (const FlatRange& range : ranges) (range.tensor >= 0 ? of_tensors : others).push_back(range);
  std::vector<double> facts(2 * tensors.size());
  std::vector<FlatRange> whole_rows;
  for (const FlatRange& tensor : tensors) {
    const std::int64_t unit = tensor.elems / kReferenceRows;
    facts.push_back(double(tensor.elems));
    for (std::int64_t row = 0; row < kReferenceRows; ++row)
      whole_rows.push_back({.offset = tensor.offset + row * unit, .elems = unit});
  }
  facts.resize(facts.size() + whole_rows.size() + 1);
  const auto norms = backend.allocate(facts.size() * sizeof(double), "norms");
  backend.copy_to_device(norms->data(), facts.data(), norms->bytes());
  double* const directions = norms->as<double>() + tensors.size();
  double* const row_norms = norms->as<double>() + 3 * tensors.size();
  update.weight_norms = norms->as<double>();
  update.direction_norms = directions;
  update.tensor_elems = directions + tensors.size();
  update.row_norms = row_norms;
  std::vector<UnitRange> rows;
  for (const UpdatePhase phase : update_phases(update.optimizer)) {
    update.phase = phase;
    switch (phase) {
      case UpdatePhase::update:
      case UpdatePhase::direction:
        backend.optimizer_update(update, ranges);
        break;
      case UpdatePhase::tensor_update:
      case UpdatePhase::tensor_direction:
      case UpdatePhase::normalize:
        backend.optimizer_update(update, of_tensors);
        break;
      case UpdatePhase::update_others:
        backend.optimizer_update(update, others);
        break;
      case UpdatePhase::weight_norms:
        backend.start_squared_norms(update.params, tensors, norms->as<double>());
        break;
      case UpdatePhase::direction_norms:
        backend.start_squared_norms(update.grads, tensors, directions);
        break;
      case UpdatePhase::normalize_rows:
        backend.start_squared_norms(update.grads, whole_rows, row_norms);
        rows = rows_of(of_tensors, tensors);
        update.rows = rows;
        backend.optimizer_update(update, {});
        update.rows = {};
        break;
      case UpdatePhase::orthogonalize:
        break;
    }
  }
  backend.synchronize();
}

/// Those of `ranges` that are of a tensor, which are whole tensors.
inline std::vector<FlatRange> tensors_in(const std::vector<FlatRange>& ranges) {
  std::vector<FlatRange> tensors;
  for (const FlatRange& range : ranges)
    if (range.tensor >= 0) tensors.push_back(range);
  return tensors;
}

/// As many arrays of state as an optimizer may have, all 0.5.
class FilledState {
 public:
  FilledState(Backend& backend, std::int64_t elems) : backend_(backend) {
    const std::vector<float> values(std::size_t(elems), 0.5f);
    for (auto& memory : memory_) {
      memory = backend.allocate(values.size() * sizeof(float), "state");
      backend.copy_to_device(memory->data(), values.data(), memory->bytes());
    }
  }
  std::array<float*, kMaxOptimizerState> arrays() {
    std::array<float*, kMaxOptimizerState> arrays{};
    for (std::size_t i = 0; i < arrays.size(); ++i) arrays[i] = memory_[i]->as<float>();
    return arrays;
  }
  /// Of all arrays, one behind another.
  std::vector<float> values() {
    std::vector<float> all;
    for (auto& memory : memory_) {
      std::vector<float> values(memory->bytes() / sizeof(float));
      backend_.copy_to_host(values.data(), memory->data(), memory->bytes());
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }

 private:
  Backend& backend_;
  std::unique_ptr<DeviceBuffer> memory_[kMaxOptimizerState];
};

/// Floats in device memory.
class DeviceArray {
 public:
  DeviceArray(Backend& backend, const std::vector<float>& values)
      : backend_(backend), memory_(backend.allocate(values.size() * sizeof(float), "floats")) {
    backend.copy_to_device(memory_->data(), values.data(), memory_->bytes());
  }
  float* data() { return memory_->as<float>(); }
  std::vector<float> values() {
    std::vector<float> values(memory_->bytes() / sizeof(float));
    backend_.copy_to_host(values.data(), memory_->data(), memory_->bytes());
    return values;
  }

 private:
  Backend& backend_;
  std::unique_ptr<DeviceBuffer> memory_;
};

/// Elements of both signs between 0.1 and 1 in size: no sum cancels to rounding noise.
inline std::vector<float> gradient_values(std::int64_t elems, std::uint64_t seed) {
  const HostTensor t = random_f32({elems}, seed, 0.1f, 1), signs = random_f32({elems}, seed + 1000);
  std::vector<float> values(t.as<float>(), t.as<float>() + elems);
  for (std::size_t i = 0; i < values.size(); ++i)
    if (signs.as<float>()[i] < 0) values[i] = -values[i];
  return values;
}

/// Parameters and state of `optimizer` on a device, and in double precision.
struct OptimizerRun {
  OptimizerRun(Backend& device, const Optimizer& o, const std::vector<float>& start)
      : backend(device), optimizer(o), params(device, start) {
    expected.params.assign(start.begin(), start.end());
    for (int s = 0; s < state_arrays(optimizer); ++s) {
      state.push_back(std::make_unique<DeviceArray>(device, std::vector<float>(start.size())));
      expected.state[std::size_t(s)].assign(start.size(), 0.0);
    }
  }

  /// Update `step` on `ranges`, by the kernels and by the formula. `tensors`: see run_kernels().
  void update(const std::vector<float>& grads,
              const std::vector<FlatRange>& ranges,
              std::uint64_t step,
              const std::vector<FlatRange>& tensors = {}) {
    DeviceArray on_device(backend, grads);
    OptimizerUpdate update{.optimizer = optimizer,
                           .params = params.data(),
                           .grads = on_device.data(),
                           .lr = 0.01f,
                           .grad_scale = 0.5f,
                           .step = step};
    for (std::size_t s = 0; s < state.size(); ++s) update.state[s] = state[s]->data();
    run_kernels(backend, update, ranges, tensors);
    optimizer_reference(expected, {grads.begin(), grads.end()}, update, ranges);
  }

  /// Values are below 4; each of `steps` steps makes about 12 roundings.
  void expect_close(int steps) {
    expect_close(params.values(), expected.params, steps, "parameter");
    for (std::size_t s = 0; s < state.size(); ++s)
      expect_close(state[s]->values(), expected.state[s], steps, state_names(optimizer)[s]);
  }
  /// Another run on other cuts of the same ranges.
  void expect_same_bits(OptimizerRun& other) {
    EXPECT_EQ(params.values(), other.params.values()) << "cutting ranges changed bits";
    for (std::size_t s = 0; s < state.size(); ++s)
      EXPECT_EQ(state[s]->values(), other.state[s]->values()) << "cutting ranges changed bits";
  }

  Backend& backend;
  Optimizer optimizer;
  DeviceArray params;
  std::vector<std::unique_ptr<DeviceArray>> state;
  ReferenceState expected;

 private:
  static void expect_close(const std::vector<float>& got,
                           const std::vector<double>& want,
                           int steps,
                           std::string_view what) {
    double largest = 4;
    for (const double value : want) largest = std::max(largest, std::abs(value));
    for (std::size_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(got[i], want[i], largest * 0x1p-24 * steps * 12) << what << " element " << i;
  }
};

/// Every optimizer over three steps against its formula, on `ranges` of `elems` elements and on the
/// same ranges cut into `pieces`.
inline void expect_formulas(Backend& backend,
                            std::int64_t elems,
                            const std::vector<FlatRange>& ranges,
                            const std::vector<FlatRange>& pieces) {
  const HostTensor start = random_f32({elems}, 1, -1, 1);
  const std::vector<float> params(start.as<float>(), start.as<float>() + elems);
  for (const Optimizer& optimizer : optimizer_cases()) {
    SCOPED_TRACE(to_string(optimizer));
    OptimizerRun whole(backend, optimizer, params), cut(backend, optimizer, params);
    for (std::uint64_t step = 0; step < 3; ++step) {
      const std::vector<float> grads = gradient_values(elems, 10 + step);
      whole.update(grads, ranges, step, tensors_in(ranges));
      cut.update(grads, pieces, step, tensors_in(ranges));
    }
    whole.expect_close(3);
    whole.expect_same_bits(cut);
  }
}

}  // namespace lockstep::test
