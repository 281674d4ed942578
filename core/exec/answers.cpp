// SPDX-License-Identifier: Apache-2.0
#include "core/exec/answers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/base/text/utf8.h"
#include "core/data/preprocessing.h"
#include "lockstep/tokens/tokenizer.h"

namespace lockstep {

std::vector<double> softmax(std::span<const float> logits) {
  std::vector<double> result(logits.begin(), logits.end());
  if (result.empty()) return result;
  const double most = *std::ranges::max_element(result);
  double sum = 0;
  for (double& value : result) sum += value = std::exp(value - most);
  for (double& value : result) value /= sum;
  return result;
}

std::vector<double> answers_of(const data::Preprocessing& trained, std::span<const float> outputs) {
  if (trained.task == data::Task::classification || trained.task == data::Task::next_token)
    return softmax(outputs);
  std::vector<double> result(outputs.begin(), outputs.end());
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (trained.task == data::Task::multi_label) {
      result[i] = 1 / (1 + std::exp(-result[i]));
    } else if (trained.table) {
      result[i] = data::in_units(trained.table->targets.at(i), result[i]);
    }
  }
  return result;
}

std::vector<std::size_t> largest(std::span<const double> values, std::size_t count) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto key = [&](std::size_t i) {
    return std::isnan(values[i]) ? -std::numeric_limits<double>::infinity() : values[i];
  };
  const auto end = order.begin() + std::ptrdiff_t(std::min(count, order.size()));
  std::partial_sort(order.begin(), end, order.end(), [&](std::size_t a, std::size_t b) {
    return key(a) > key(b) || (key(a) == key(b) && a < b);
  });
  order.erase(end, order.end());
  return order;
}

std::string output_name(const data::Preprocessing& trained, std::size_t index) {
  if (index < trained.class_names.size()) return trained.class_names[index];
  if (trained.tokenizer && std::int64_t(index) < trained.tokenizer->vocabulary()) {
    const auto token = std::int32_t(index);
    return to_valid_utf8(trained.tokenizer->decode(std::span(&token, 1)));
  }
  const bool targets = trained.task == data::Task::regression && trained.table;
  if (targets && index < trained.table->targets.size()) return trained.table->targets[index].name;
  return std::to_string(index);
}

}  // namespace lockstep
