// SPDX-License-Identifier: Apache-2.0
#include "core/exec/agreement.h"

#include <bit>
#include <vector>

namespace lockstep {
namespace {

constexpr std::uint64_t kSign = std::uint64_t{1} << 63;

/// Ascends with the number: bits of negative ones descend.
std::uint64_t ordered_bits(double value) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  return (bits & kSign) != 0 ? ~bits : bits | kSign;
}

double from_ordered_bits(std::uint64_t bits) {
  return std::bit_cast<double>((bits & kSign) != 0 ? bits & ~kSign : ~bits);
}

}  // namespace

bool all_ranks_equal(Communicator& communicator, std::initializer_list<std::uint64_t> own) {
  std::vector<std::uint64_t> values(own);
  for (const std::uint64_t value : own) values.push_back(~value);
  communicator.all_reduce_max(values);
  for (std::size_t i = 0; i < own.size(); ++i)
    if (values[i] != ~values[own.size() + i]) return false;
  return true;
}

bool all_ranks(Communicator& communicator, bool own) { return !any_rank(communicator, !own); }

bool any_rank(Communicator& communicator, bool own) {
  return largest(communicator, std::uint64_t(own ? 1 : 0)) != 0;
}

int first_rank(Communicator& communicator, bool own) {
  const auto ranks = std::uint64_t(communicator.size());
  const std::uint64_t left = ranks - std::uint64_t(communicator.rank());  // 1 or more
  const std::uint64_t most = largest(communicator, own ? left : std::uint64_t{0});
  return most == 0 ? -1 : int(ranks - most);
}

std::uint64_t largest(Communicator& communicator, std::uint64_t own) {
  communicator.all_reduce_max({&own, 1});
  return own;
}

std::uint64_t smallest(Communicator& communicator, std::uint64_t own) {
  return ~largest(communicator, ~own);
}

double largest(Communicator& communicator, double own) {
  return from_ordered_bits(largest(communicator, ordered_bits(own)));
}

}  // namespace lockstep
