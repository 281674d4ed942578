// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <memory>
#include <string_view>
#include <vector>

#include "core/exec/backend.h"

namespace lockstep::test {

/// Every optimizer with its defaults, and those whose kernels take another path by a setting.
inline std::vector<Optimizer> optimizer_cases() {
  std::vector<Optimizer> cases;
  for (const std::string_view name : optimizer_names()) cases.push_back(make_optimizer(name));
  cases.push_back(Sgd{.momentum = 0.9f});
  cases.push_back(Sgd{.momentum = 0.9f, .nesterov = true});
  return cases;
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

}  // namespace lockstep::test
