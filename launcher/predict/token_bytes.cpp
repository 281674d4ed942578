// SPDX-License-Identifier: Apache-2.0
#include "launcher/predict/token_bytes.h"

#include <cmath>
#include <cstdint>
#include <numbers>
#include <string>
#include <vector>

#include "core/exec/gather_records.h"

namespace lockstep {
namespace {

struct Counts {
  std::int64_t targets = 0, bytes = 0;
};

/// Of the samples rank, rank + ranks, ...
Counts count(const data::Dataset& data,
             const std::vector<std::string>& texts,
             std::int64_t rank,
             std::int64_t ranks) {
  const data::SampleSpec& spec = data.spec();
  std::vector<std::byte> input(spec.input.bytes());
  std::vector<std::int32_t> tokens(std::size_t(spec.target.elems()));
  Counts counts;
  for (std::int64_t sample = rank; sample < data.size(); sample += ranks) {
    data.load(0, sample, input.data(), reinterpret_cast<std::byte*>(tokens.data()));
    for (const std::int32_t token : tokens) {
      if (token < 0 || token == spec.ignore_index || token >= std::ssize(texts)) continue;
      ++counts.targets;
      counts.bytes += std::ssize(texts[std::size_t(token)]);
    }
  }
  return counts;
}

}  // namespace

std::optional<double> bits_per_byte(double loss, const data::Dataset& data, Communicator& ranks) {
  const std::vector<std::string> texts = data.class_names();
  if (data.spec().input.dtype != DType::i32 || texts.empty()) return std::nullopt;
  Counts all;
  for (const Counts& part : gather_records(ranks, count(data, texts, ranks.rank(), ranks.size()))) {
    all.targets += part.targets;
    all.bytes += part.bytes;
  }
  if (all.bytes == 0) return std::nullopt;
  return loss * double(all.targets) / (std::numbers::ln2 * double(all.bytes));
}

}  // namespace lockstep
