// SPDX-License-Identifier: Apache-2.0
#include "core/io/load_weights.h"

#include <algorithm>
#include <bit>
#include <cmath>
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

std::string shape_text(std::span<const std::int64_t> dims) {
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

/// What is wrong with the file's tensor for `parameter`; empty where it fits.
std::string mismatch(const SafetensorsReader& file, const Parameter& parameter) {
  const auto expected = parameter.file_layout.file.dims();
  if (!file.contains(parameter.name))
    return fmt::format("{}: expected {}, got nothing", parameter.name, shape_text(expected));
  const TensorEntry& entry = file.entry(parameter.name);
  if (!std::ranges::equal(entry.shape, expected))
    return fmt::format(
        "{}: expected {}, got {}", parameter.name, shape_text(expected), shape_text(entry.shape));
  if (!is_real(entry.type))
    return fmt::format(
        "{}: expected F32, F64, F16 or BF16, got {}", parameter.name, name_of(entry.type));
  return {};
}

void expect_fit(const SafetensorsReader& file,
                const std::vector<const Parameter*>& wanted,
                const NamePatterns& skip) {
  std::vector<std::string> problems;
  std::set<std::string> known;
  for (const Parameter* parameter : wanted) {
    known.insert(parameter->name);
    if (skip.match(parameter->name)) continue;
    if (std::string problem = mismatch(file, *parameter); !problem.empty())
      problems.push_back(std::move(problem));
  }
  for (const TensorEntry& entry : file.entries())
    if (!known.contains(entry.name) && !skip.match(entry.name) &&
        !entry.name.ends_with("num_batches_tracked"))
      problems.push_back(
          fmt::format("{}: not in the model, got {}", entry.name, shape_text(entry.shape)));
  if (problems.empty()) return;
  throw DataError(fmt::format("{}: {} tensor{} not fit the model:\n  {}",
                              file.path().string(),
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
  for (const TensorEntry& entry : reader.entries()) names.push_back(entry.name);
  skip.expect_matches(names);
  expect_fit(reader, wanted, skip);
  std::vector<NamedTensor> result;
  for (const Parameter* parameter : wanted)
    if (!skip.match(parameter->name))
      result.push_back(
          {*parameter,
           from_file_layout(*parameter, read_values(reader, reader.entry(parameter->name)))});
  return result;
}

}  // namespace lockstep::io
