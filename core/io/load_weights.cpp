// SPDX-License-Identifier: Apache-2.0
#include "core/io/load_weights.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <regex>
#include <set>
#include <span>

#include "core/base/error.h"
#include "core/io/safetensors.h"

namespace lockstep::io {
namespace {

/// IEEE 754 binary16: sign, 5 bits of exponent, 10 of fraction.
float from_f16(std::uint16_t bits) {
  const int exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;
  const float sign = (bits & 0x8000) != 0 ? -1.0f : 1.0f;
  if (exponent == 0) return sign * float(fraction) * 0x1p-24f;
  if (exponent == 0x1f) return fraction == 0 ? sign * INFINITY : NAN;
  return sign * std::ldexp(float(1024 + fraction), exponent - 25);
}

float from_bf16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t(bits) << 16); }

template <typename T, typename Convert>
std::vector<float> read_as(const SafetensorsReader& file,
                           const TensorEntry& entry,
                           Convert convert) {
  std::vector<T> raw(std::size_t(entry.bytes / sizeof(T)));
  file.read(entry, std::as_writable_bytes(std::span<T>(raw)));
  std::vector<float> values(raw.size());
  std::ranges::transform(raw, values.begin(), convert);
  return values;
}

bool is_real(ElementType type) {
  return type == ElementType::f32 || type == ElementType::f64 || type == ElementType::f16 ||
         type == ElementType::bf16;
}

std::vector<float> read_values(const SafetensorsReader& file, const TensorEntry& entry) {
  switch (entry.type) {
    case ElementType::f32:
      return read_as<float>(file, entry, [](float v) { return v; });
    case ElementType::f64:
      return read_as<double>(file, entry, [](double v) { return float(v); });
    case ElementType::f16:
      return read_as<std::uint16_t>(file, entry, from_f16);
    case ElementType::bf16:
      return read_as<std::uint16_t>(file, entry, from_bf16);
    default:
      throw InternalError("no real numbers in " + entry.name);
  }
}

constexpr std::string_view kGptPrefix = "transformer.";
constexpr const char* kTokenTable = "transformer.wte.weight";
constexpr const char* kHead = "lm_head.weight";

/// The causal masks that older versions of Hugging Face's GPT-2 keep among the weights.
bool is_attention_mask(const std::string& name) {
  static const std::regex kMask(R"((transformer\.)?h\.\d+\.attn\.(masked_)?bias)");
  return std::regex_match(name, kMask);
}

/// The tensors of a file by the names that the model has for them.
class FileTensors {
 public:
  FileTensors(const SafetensorsReader& file, const std::vector<const Parameter*>& wanted)
      : file_(file) {
    for (const Parameter* parameter : wanted) known_.insert(parameter->name);
    const auto prefixed = [](const std::string& name) { return name.starts_with(kGptPrefix); };
    const bool gpt = std::ranges::any_of(known_, prefixed);
    const bool bare = gpt && std::ranges::none_of(file.entries(), prefixed, &TensorEntry::name);
    for (const TensorEntry& entry : file.entries()) {
      const std::string longer = std::string(kGptPrefix) + entry.name;
      const std::string& name = bare && known_.contains(longer) ? longer : entry.name;
      if (known_.contains(name) || !(gpt && is_attention_mask(name)))
        by_name_.emplace(name, &entry);
    }
  }

  const SafetensorsReader& file() const { return file_; }
  bool in_model(const std::string& name) const { return known_.contains(name); }
  const std::map<std::string, const TensorEntry*>& by_name() const { return by_name_; }
  /// Null where the file has none.
  const TensorEntry* find(const std::string& name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }

 private:
  const SafetensorsReader& file_;
  std::set<std::string> known_;
  std::map<std::string, const TensorEntry*> by_name_;
};

std::string shape_text(std::span<const std::int64_t> dims) {
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

/// What is wrong with the file's tensor for `parameter`; empty where it fits.
std::string mismatch(const TensorEntry* entry, const Parameter& parameter) {
  const auto expected = parameter.file_layout.file.dims();
  if (entry == nullptr)
    return fmt::format("{}: expected {}, got nothing", parameter.name, shape_text(expected));
  if (!std::ranges::equal(entry->shape, expected))
    return fmt::format(
        "{}: expected {}, got {}", parameter.name, shape_text(expected), shape_text(entry->shape));
  if (!is_real(entry->type))
    return fmt::format(
        "{}: expected F32, F64, F16 or BF16, got {}", parameter.name, name_of(entry->type));
  return {};
}

/// What is wrong with a tensor of the file that the model has not; empty where it may be ignored.
std::string surplus(const FileTensors& tensors, const std::string& name, const TensorEntry& entry) {
  if (name.ends_with("num_batches_tracked")) return {};
  const std::string shape = shape_text(entry.shape);
  const TensorEntry* table = tensors.find(kTokenTable);
  if (name != kHead || !tensors.in_model(kTokenTable) || table == nullptr)
    return fmt::format("{}: not in the model, got {}", name, shape);
  if (entry.shape == table->shape && is_real(entry.type) && is_real(table->type) &&
      read_values(tensors.file(), entry) == read_values(tensors.file(), *table))
    return {};
  return fmt::format(
      "{}: expected the values of {}, which is this model's head too, got {} of its own; "
      "--tied-head off makes a head of its own",
      name,
      kTokenTable,
      shape);
}

void expect_fit(const FileTensors& tensors,
                const std::vector<const Parameter*>& wanted,
                const NamePatterns& skip) {
  std::vector<std::string> problems;
  const auto add = [&](std::string problem) {
    if (!problem.empty()) problems.push_back(std::move(problem));
  };
  for (const Parameter* parameter : wanted)
    if (!skip.match(parameter->name)) add(mismatch(tensors.find(parameter->name), *parameter));
  for (const auto& [name, entry] : tensors.by_name())
    if (!tensors.in_model(name) && !skip.match(name)) add(surplus(tensors, name, *entry));
  if (problems.empty()) return;
  throw DataError(fmt::format("{}: {} tensor{} not fit the model:\n  {}",
                              tensors.file().path().string(),
                              problems.size(),
                              problems.size() == 1 ? " does" : "s do",
                              fmt::join(problems, "\n  ")),
                  "--init-skip REGEX leaves tensors out: --init-skip '^fc\\.' gives a model a new "
                  "fc layer");
}

}  // namespace

std::vector<NamedTensor> load_weights(const std::string& file,
                                      const std::vector<Parameter>& parameters,
                                      const NamePatterns& skip) {
  const SafetensorsReader reader(file);
  std::vector<const Parameter*> wanted;
  std::vector<std::string> names;
  for (const Parameter& parameter : parameters)
    if (parameter.kind != ParameterKind::metric) {
      wanted.push_back(&parameter);
      names.push_back(parameter.name);
    }
  const FileTensors tensors(reader, wanted);
  for (const auto& [name, entry] : tensors.by_name()) names.push_back(name);
  skip.expect_matches(names);
  expect_fit(tensors, wanted, skip);
  std::vector<NamedTensor> result;
  for (const Parameter* parameter : wanted)
    if (!skip.match(parameter->name))
      result.push_back(
          {*parameter,
           from_file_layout(*parameter, read_values(reader, *tensors.find(parameter->name)))});
  return result;
}

}  // namespace lockstep::io
