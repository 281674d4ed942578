// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstring>
#include <gtest/gtest.h>
#include <vector>

#include "core/exec/backend.h"
#include "core/exec/replica_hash.h"
#include "tests/ops/op_case.h"

/// What Backend::hash has to do on every device.
namespace lockstep::test {

/// As replica_hash.h defines it.
inline std::uint64_t reference_hash(const std::vector<float>& values, const HashRange& range) {
  std::uint64_t sum = 0;
  for (std::int64_t i = range.offset; i < range.offset + range.elems; ++i)
    sum += replica_hash_mix(std::bit_cast<std::uint32_t>(values[std::size_t(i)]), i);
  return sum;
}

inline std::vector<std::uint64_t> hashes(Backend& backend,
                                         const std::vector<float>& values,
                                         const std::vector<HashRange>& ranges) {
  const auto memory = backend.allocate(values.size() * sizeof(float), "values");
  backend.copy_to_device(memory->data(), values.data(), memory->bytes());
  std::vector<std::uint64_t> result(ranges.size(), 1);
  backend.hash(memory->as<float>(), ranges, result.data());
  return result;
}

/// Ranges of every kind of tail at even and odd places, with gaps and an empty one; values are any
/// bits, NaN and subnormal numbers among them.
inline void expect_hashes_of_the_formula(Backend& backend) {
  std::vector<HashRange> ranges;
  std::int64_t end = 0;
  for (std::int64_t elems : {1, 0, 3, 4, 7, 8, 15, 16, 17, 64, 1025, 8192, 8193, 3 * 8192 + 5}) {
    ranges.push_back({.offset = end, .elems = elems});
    end += elems + elems % 3;
  }
  std::vector<float> values(std::size_t(end), 0.0f);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto bits = std::uint32_t(replica_hash_mix(7, std::int64_t(i)));
    std::memcpy(&values[i], &bits, sizeof bits);
  }
  const std::vector<std::uint64_t> got = hashes(backend, values, ranges);
  for (std::size_t i = 0; i < ranges.size(); ++i)
    EXPECT_EQ(got[i], reference_hash(values, ranges[i])) << ranges[i].elems << " elements";
}

/// More ranges than a launch takes as its arguments.
inline void expect_hashes_of_many_ranges(Backend& backend) {
  const HostTensor random = random_f32({400 * 5}, 3);
  const std::vector<float> values(random.as<float>(), random.as<float>() + 400 * 5);
  std::vector<HashRange> ranges;
  for (std::int64_t i = 0; i < 400; ++i) ranges.push_back({.offset = i * 5, .elems = 1 + i % 5});
  const std::vector<std::uint64_t> got = hashes(backend, values, ranges);
  for (std::size_t i = 0; i < ranges.size(); ++i)
    ASSERT_EQ(got[i], reference_hash(values, ranges[i])) << "range " << i;
}

}  // namespace lockstep::test
