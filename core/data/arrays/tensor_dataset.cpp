// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/tensor_dataset.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "core/base/check.h"
#include "core/base/xxh64.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

std::int64_t samples_of(const SampleSpec& spec, std::size_t input_bytes) {
  const std::size_t sample = spec.input.bytes();
  LOCKSTEP_CHECK(
      sample > 0, ConfigError, "TensorDataset: samples of {} are empty", spec.input.to_string());
  LOCKSTEP_CHECK(
      input_bytes > 0 && input_bytes % sample == 0,
      ConfigError,
      "TensorDataset: inputs have {} bytes; samples of {} have {} each, expected a multiple",
      input_bytes,
      spec.input.to_string(),
      sample);
  return std::int64_t(input_bytes / sample);
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
  for (const EmbeddedColumn& column : spec.embedded)
    check_elements<float>(inputs,
                          elems,
                          "input",
                          fmt::format("a category, 0 to {}", column.categories - 1),
                          [&](float x, std::int64_t element) {
                            return element != column.feature ||
                                   (x >= 0 && x < float(column.categories) && x == std::floor(x));
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

void check_spec(const SampleSpec& spec, const std::vector<std::string>& class_names) {
  const DType target = spec.target.dtype;
  LOCKSTEP_CHECK(
      (target == DType::i32 && spec.classes > 0) || (target == DType::f32 && spec.classes == 0),
      ConfigError,
      "TensorDataset: targets of {} with {} classes; expected i32 with one class or "
      "more, or f32 with none",
      spec.target.to_string(),
      spec.classes);
  LOCKSTEP_CHECK(spec.input.dtype != DType::bf16,
                 ConfigError,
                 "TensorDataset: inputs of {}; expected f32, u8 or i32",
                 spec.input.to_string());
  const std::size_t named =
      spec.multi_label ? std::size_t(spec.target.elems()) : std::size_t(spec.classes);
  LOCKSTEP_CHECK(class_names.empty() || class_names.size() == named,
                 ConfigError,
                 "TensorDataset: {} names for {} classes",
                 class_names.size(),
                 named);
}

std::uint64_t hash_of(const SampleSpec& spec,
                      const std::vector<std::byte>& inputs,
                      const std::vector<std::byte>& targets,
                      const std::vector<std::string>& class_names) {
  std::string types =
      fmt::format("{} {} {}", spec.input.to_string(), spec.target.to_string(), spec.classes);
  for (const std::string& name : class_names) types += '\0' + name;
  const std::uint64_t seed = xxh64(types.data(), types.size());
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
    : spec_(std::move(spec)),
      size_(samples_of(spec_, inputs.size())),
      inputs_(inputs.begin(), inputs.end()),
      targets_(targets.begin(), targets.end()),
      class_names_(std::move(class_names)) {
  check_spec(spec_, class_names_);
  LOCKSTEP_CHECK(targets.size() == std::size_t(size_) * spec_.target.bytes(),
                 ConfigError,
                 "TensorDataset: {} samples have targets of {} bytes, expected {}: {} each",
                 size_,
                 targets.size(),
                 std::size_t(size_) * spec_.target.bytes(),
                 spec_.target.to_string());
  check_inputs(spec_, inputs_);
  check_targets(spec_, targets_);
  fingerprint_ = hash_of(spec_, inputs_, targets_, class_names_);
}

void TensorDataset::load(std::uint64_t /*epoch*/,
                         std::int64_t index,
                         std::byte* input,
                         std::byte* target) const {
  const std::size_t i = std::size_t(index), bytes = spec_.input.bytes(),
                    target_bytes = spec_.target.bytes();
  std::memcpy(input, inputs_.data() + i * bytes, bytes);
  std::memcpy(target, targets_.data() + i * target_bytes, target_bytes);
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
