// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/tensor_dataset.h"

#include <cmath>
#include <cstring>
#include <fmt/ranges.h>
#include <string>
#include <utility>

#include "core/base/check.h"
#include "core/base/xxh64.h"
#include "core/data/embedded_column.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

/// No tensor of one sample has as many elements; what they take stays far from overflowing.
constexpr std::int64_t kMaxElems = std::int64_t{1} << 40;

/// How many samples of `type` are in `bytes`. `what` they are: inputs or targets.
std::int64_t samples_in(std::size_t bytes, const TensorType& type, const char* what) {
  LOCKSTEP_CHECK(type.elems() > 0 && type.elems() <= kMaxElems,
                 ConfigError,
                 "TensorDataset: {} of {} have {} elements, expected 1 to {}",
                 what,
                 type.to_string(),
                 type.elems(),
                 kMaxElems);
  LOCKSTEP_CHECK(bytes > 0 && bytes % type.bytes() == 0,
                 ConfigError,
                 "TensorDataset: {} have {} bytes; samples of {} have {} each, expected a multiple",
                 what,
                 bytes,
                 type.to_string(),
                 type.bytes());
  return std::int64_t(bytes / type.bytes());
}

/// Calls `accepts` with each element of one type, and throws where it says no. `what` an element
/// is, and what it should have been.
template <typename T, typename Accepts>
void check_elements(const std::vector<std::byte>& bytes,
                    std::int64_t sample_elems,
                    const std::string& what,
                    const std::string& expected,
                    Accepts accepts) {
  const std::size_t count = bytes.size() / sizeof(T);
  for (std::size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    const std::int64_t element = std::int64_t(i) % sample_elems;
    LOCKSTEP_CHECK(accepts(value, element),
                   DataError,
                   "TensorDataset: {} {} of sample {} is {}, expected {}",
                   what,
                   element,
                   std::int64_t(i) / sample_elems,
                   value,
                   expected);
  }
}

void check_inputs(const SampleSpec& spec, const std::vector<std::byte>& inputs) {
  const std::int64_t elems = spec.input.elems();
  if (spec.input.dtype == DType::f32)
    check_elements<float>(inputs, elems, "input", "a finite number", [](float x, std::int64_t) {
      return std::isfinite(x);
    });
  if (spec.input.dtype == DType::i32 && spec.classes > 0)
    check_elements<std::int32_t>(
        inputs,
        elems,
        "input",
        fmt::format("0 to {}", spec.classes - 1),
        [&](std::int32_t token, std::int64_t) { return token >= 0 && token < spec.classes; });
  if (spec.embedded.empty()) return;
  std::vector<std::int64_t> categories(std::size_t(elems), 0);  // 0: a number
  for (const EmbeddedColumn& column : spec.embedded)
    categories[std::size_t(column.feature)] = column.categories;
  check_elements<float>(
      inputs, elems, "input", "the index of a category", [&](float x, std::int64_t element) {
        const std::int64_t count = categories[std::size_t(element)];
        return count == 0 || (x >= 0 && x < float(count) && x == std::floor(x));
      });
}

void check_targets(const SampleSpec& spec, const std::vector<std::byte>& targets) {
  const std::int64_t elems = spec.target.elems();
  if (spec.target.dtype == DType::i32)
    check_elements<std::int32_t>(targets,
                                 elems,
                                 "target",
                                 fmt::format("a class, 0 to {}", spec.classes - 1),
                                 [&](std::int32_t label, std::int64_t) {
                                   return (label >= 0 && label < spec.classes) ||
                                          label == spec.ignore_index;
                                 });
  else if (spec.multi_label)
    check_elements<float>(targets, elems, "target", "0 or 1", [](float x, std::int64_t) {
      return x == 0.0f || x == 1.0f;
    });
  else
    check_elements<float>(targets, elems, "target", "a finite number", [](float x, std::int64_t) {
      return std::isfinite(x);
    });
}

SampleSpec checked(SampleSpec spec, const std::vector<std::string>& class_names) {
  const TensorType &input = spec.input, &target = spec.target;
  LOCKSTEP_CHECK(input.dtype != DType::bf16,
                 ConfigError,
                 "TensorDataset: inputs of {}; expected f32, u8 or i32",
                 input.to_string());
  const bool classes = target.dtype == DType::i32 && spec.classes > 0 && !spec.multi_label;
  const bool numbers = target.dtype == DType::f32 && spec.classes == 0 && !spec.ignore_index;
  LOCKSTEP_CHECK(classes || numbers,
                 ConfigError,
                 "TensorDataset: targets of {} with {} classes{}{}; expected i32 with one class or "
                 "more, or f32 with none and nothing to ignore",
                 target.to_string(),
                 spec.classes,
                 spec.multi_label ? ", several labels a sample" : "",
                 spec.ignore_index ? ", one value ignored" : "");
  LOCKSTEP_CHECK(input.dtype != DType::i32 || classes,
                 ConfigError,
                 "TensorDataset: tokens of {} without a vocabulary; give `classes`",
                 input.to_string());
  LOCKSTEP_CHECK(spec.scale.size() == spec.shift.size(),
                 ConfigError,
                 "TensorDataset: {} values of scale and {} of shift, expected as many of both",
                 spec.scale.size(),
                 spec.shift.size());
  check_embedded(spec);
  const std::int64_t named = spec.multi_label ? target.elems() : spec.classes;
  LOCKSTEP_CHECK(class_names.empty() || std::int64_t(class_names.size()) == named,
                 ConfigError,
                 "TensorDataset: {} names for {} classes",
                 class_names.size(),
                 named);
  return spec;
}

std::uint64_t hash_of(const SampleSpec& spec,
                      const std::vector<std::byte>& inputs,
                      const std::vector<std::byte>& targets,
                      const std::vector<std::string>& class_names) {
  std::string what = fmt::format("{} {} {} {} {} scale {} shift {} embedded",
                                 spec.input.to_string(),
                                 spec.target.to_string(),
                                 spec.classes,
                                 spec.multi_label,
                                 spec.ignore_index ? std::to_string(*spec.ignore_index) : "-",
                                 fmt::join(spec.scale, ","),
                                 fmt::join(spec.shift, ","));
  for (const EmbeddedColumn& column : spec.embedded)
    what += fmt::format(" {}:{}", column.feature, column.categories);
  for (const std::string& name : class_names) what += '\0' + name;
  const std::uint64_t seed = xxh64(what.data(), what.size());
  return xxh64(targets.data(), targets.size(), xxh64(inputs.data(), inputs.size(), seed));
}

SampleSpec spec_of_numbers(const Shape& sample, std::int64_t inputs, std::int64_t targets) {
  const std::int64_t elems = sample.elems();
  const std::int64_t samples = elems > 0 ? inputs / elems : 0;
  LOCKSTEP_CHECK(samples > 0 && inputs % elems == 0 && targets > 0 && targets % samples == 0,
                 ConfigError,
                 "TensorDataset: {} inputs and {} targets for samples of {} numbers; expected so "
                 "many of each for every sample",
                 inputs,
                 targets,
                 elems);
  return {.input = {.shape = sample, .dtype = DType::f32},
          .target = {.shape = {targets / samples}, .dtype = DType::f32},
          .scale = {},
          .shift = {}};
}

}  // namespace

TensorDataset::TensorDataset(const Shape& sample,
                             std::span<const float> inputs,
                             std::span<const std::int32_t> labels,
                             int classes)
    : TensorDataset({.input = {.shape = sample, .dtype = DType::f32},
                     .target = {.shape = {}, .dtype = DType::i32},
                     .classes = classes,
                     .scale = {},
                     .shift = {}},
                    std::as_bytes(inputs),
                    std::as_bytes(labels)) {}

TensorDataset::TensorDataset(const Shape& sample,
                             std::span<const float> inputs,
                             std::span<const float> targets)
    : TensorDataset(
          spec_of_numbers(sample, std::int64_t(inputs.size()), std::int64_t(targets.size())),
          std::as_bytes(inputs),
          std::as_bytes(targets)) {}

TensorDataset::TensorDataset(SampleSpec spec,
                             std::span<const std::byte> inputs,
                             std::span<const std::byte> targets,
                             std::vector<std::string> class_names)
    : spec_(checked(std::move(spec), class_names)),
      size_(samples_in(inputs.size(), spec_.input, "inputs")),
      inputs_(inputs.begin(), inputs.end()),
      targets_(targets.begin(), targets.end()),
      input_bytes_(spec_.input.bytes()),
      target_bytes_(spec_.target.bytes()),
      class_names_(std::move(class_names)) {
  const std::int64_t count = samples_in(targets.size(), spec_.target, "targets");
  LOCKSTEP_CHECK(
      count == size_, ConfigError, "TensorDataset: {} samples and {} targets", size_, count);
  check_inputs(spec_, inputs_);
  check_targets(spec_, targets_);
  fingerprint_ = hash_of(spec_, inputs_, targets_, class_names_);
}

void TensorDataset::load(std::uint64_t /*epoch*/,
                         std::int64_t index,
                         std::byte* input,
                         std::byte* target) const {
  const auto i = std::size_t(index);
  std::memcpy(input, inputs_.data() + i * input_bytes_, input_bytes_);
  std::memcpy(target, targets_.data() + i * target_bytes_, target_bytes_);
}

void TensorDataset::load_batch(std::uint64_t epoch,
                               std::span<const std::int64_t> indices,
                               std::byte* input,
                               std::byte* target) const {
  for (const std::int64_t index : indices) {
    TensorDataset::load(epoch, index, input, target);
    input += input_bytes_;
    target += target_bytes_;
  }
}

std::int32_t TensorDataset::label(std::int64_t index) const {
  LOCKSTEP_ASSERT(spec_.target == TensorType({}, DType::i32));
  std::int32_t label = 0;
  std::memcpy(&label, targets_.data() + std::size_t(index) * sizeof label, sizeof label);
  return label;
}

std::string TensorDataset::describe() const {
  std::string text = fmt::format("{} samples in memory, {}", size_, spec_.input.to_string());
  if (spec_.classes > 0) text += fmt::format(", {} classes", spec_.classes);
  return text;
}

}  // namespace lockstep::data
