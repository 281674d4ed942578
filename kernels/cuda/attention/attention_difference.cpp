// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/attention/attention_difference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <fmt/format.h>

namespace lockstep::cuda {
namespace {

constexpr double kEps = 0x1p-8;
constexpr double kElement = 64 * kEps, kTensor = 2 * kEps, kLogarithm = kEps / 8;

double widened(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t(bits) << 16); }

/// The part of dq that does not shrink with the number of keys; see the note.
double dq_that_stays(const FusedAttentionSpec& spec) {
  return 8 / (9 * std::sqrt(double(spec.depth)));
}

const char* name_of_part(AttentionPass pass, std::size_t part) {
  constexpr std::array kGradients{"dq", "dk", "dv"};
  return pass == AttentionPass::forward ? "y" : kGradients[part];
}

}  // namespace

AttentionDifference::AttentionDifference(const FusedAttentionSpec& spec)
    : spec_(spec), query_norms_(std::size_t(spec.tokens)), key_norms_(query_norms_.size()) {
  // From the last query on: those that see a causal key are its own and later ones.
  double squares = 0;
  for (std::size_t i = query_norms_.size(); i-- > 0;) {
    const double seen = spec.causal ? double(i + 1) : double(spec.tokens);
    query_norms_[i] = 1 / std::sqrt(seen);
    squares += 1 / (seen * seen);
    key_norms_[i] = std::sqrt(squares);
  }
  if (!spec.causal)
    for (double& norm : key_norms_) norm = std::sqrt(squares);
}

void AttentionDifference::add(std::int64_t first,
                              std::span<const std::uint16_t> own,
                              std::span<const std::uint16_t> other) {
  const bool forward = spec_.pass == AttentionPass::forward;
  const std::size_t width = std::size_t(spec_.heads * spec_.depth), parts = forward ? 1 : 3;
  for (std::size_t begin = 0; begin < own.size(); begin += width) {
    const std::size_t row = std::size_t(first) + begin / width, part = row % parts;
    const std::size_t token = row / parts % std::size_t(spec_.tokens);
    const bool of_keys = !forward && part > 0, of_scores = !forward && part < 2;
    const double of_queries = of_scores && !of_keys ? dq_that_stays(spec_) : 0;
    const double granted = kElement * std::sqrt(of_scores ? 2.0 / 27 : 1.0 / 3) *
                               (of_keys ? key_norms_ : query_norms_)[token] +
                           2 * kEps * of_queries;
    double difference = 0, size = 0, largest = 0;
    for (std::size_t i = begin; i < begin + width; ++i) {
      const double a = widened(own[i]), off = std::abs(widened(other[i]) - a);
      difference += off * off;
      size += a * a;
      largest = std::max(largest, off);  // a NaN is seen in the sums
    }
    parts_[part].difference += difference;
    parts_[part].size += size;
    if (!(largest <= granted) && first_.empty())
      first_ = fmt::format("{} of token {} is {:.3g} off, where roundings are {:.3g} at most",
                           name_of_part(spec_.pass, part),
                           token,
                           largest,
                           granted);
  }
}

void AttentionDifference::add_lse(std::span<const float> own, std::span<const float> other) {
  for (std::size_t i = 0; i < own.size() && first_.empty(); ++i) {
    const double off = std::abs(double(other[i]) - double(own[i]));
    if (!(off <= kLogarithm))
      first_ = fmt::format(
          "lse is {:.3g} off, where roundings are {:.3g} at most", off, double(kLogarithm));
  }
}

std::string AttentionDifference::why_not() const {
  if (!first_.empty()) return first_;
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    const double difference = std::sqrt(parts_[part].difference),
                 granted = kTensor * std::sqrt(parts_[part].size);
    if (!(difference <= granted))
      return fmt::format("{} is {:.3g} of its norm off, where roundings are {:.3g} at most",
                         name_of_part(spec_.pass, part),
                         difference / std::sqrt(parts_[part].size),
                         kTensor);
  }
  return {};
}

}  // namespace lockstep::cuda
