// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "core/base/random.h"
#include "parallel/exchange/gradient_exchange.h"

namespace lockstep::testing {

enum class Values { random, integers };

/// Gradients that a shard "computes" in a step: a pure function, so that any rank can.
class FakeGradients {
 public:
  FakeGradients(std::vector<Bucket> buckets, Values values)
      : buckets_(std::move(buckets)), values_(values) {}

  const std::vector<Bucket>& buckets() const { return buckets_; }
  std::size_t elems() const { return std::size_t(buckets_.back().offset + buckets_.back().elems); }

  void write(std::vector<float>& out, int step, int shard) const {
    const std::uint64_t key = random_key(std::uint64_t(step), "gradients");
    for (std::size_t i = 0; i < out.size(); i += 4) {
      const RandomBlock words = philox(key, i, std::uint64_t(shard));
      for (std::size_t j = 0; j < 4 && i + j < out.size(); ++j) out[i + j] = value(words[j]);
    }
  }

  /// T(lo, hi) of Note [Reduction tree], word for word; empty where all shards are absent.
  std::optional<std::vector<float>> tree(const std::vector<bool>& present,
                                         int step,
                                         int lo,
                                         int hi) const {
    if (hi - lo == 1) {
      if (!present[std::size_t(lo)]) return std::nullopt;
      std::vector<float> leaf(elems());
      write(leaf, step, lo);
      return leaf;
    }
    int half = 1;
    while (2 * half < hi - lo) half *= 2;
    auto left = tree(present, step, lo, lo + half), right = tree(present, step, lo + half, hi);
    if (!left || !right) return left ? left : right;
    for (std::size_t i = 0; i < left->size(); ++i) (*left)[i] += (*right)[i];
    return left;
  }

 private:
  float value(std::uint32_t word) const {
    if (values_ == Values::integers) return float(word % 31) - 15.0f;
    return (uniform01(word) - 0.5f) * float(1u << (word & 15));
  }

  std::vector<Bucket> buckets_;
  Values values_;
};

/// Below, at and above what is gathered whole, with gaps between.
inline std::vector<Bucket> buckets_of_all_sizes() {
  std::vector<Bucket> buckets;
  std::int64_t offset = 64;
  for (std::int64_t elems : {1, 300001, 5, 70000, 1000, 16384, 16385}) {
    buckets.push_back({offset, elems});
    offset += (elems + 127) / 64 * 64;
  }
  return buckets;
}

/// A schedule that make_schedule would not make: one micro-batch a shard, the given owners.
inline Schedule schedule_of(const std::vector<ShardRange>& owners, int shards, int rank) {
  Schedule schedule;
  schedule.samples = schedule.shards = shards;
  schedule.shards_of_rank = owners;
  for (int s = owners[std::size_t(rank)].first; s < owners[std::size_t(rank)].last; ++s)
    schedule.work.push_back({s, {{s, 1}}});
  return schedule;
}

inline std::vector<bool> present_shards(const Schedule& schedule) {
  std::vector<bool> present(std::size_t(schedule.shards));
  for (const ShardRange& range : schedule.shards_of_rank)
    for (int s = range.first; s < range.last; ++s) present[std::size_t(s)] = true;
  return present;
}

/// One training step without the training. Ranks dawdle differently, so that their exchanges reach
/// their stages in different orders.
inline void run_step(GradientExchange& exchange,
                     std::vector<float>& gradients,
                     const FakeGradients& fake,
                     const Schedule& schedule,
                     int rank,
                     int step) {
  RandomStream dawdle(random_key(std::uint64_t(rank), "dawdle"), std::uint64_t(step));
  exchange.begin_step(schedule);
  for (int turn = 0; turn < schedule.turns; ++turn) {
    if (turn > 0) exchange.next_turn();
    const std::size_t first = std::size_t(turn);
    const std::size_t end =
        schedule.turns > 1 ? std::min(first + 1, schedule.work.size()) : schedule.work.size();
    if (first >= end) gradients.assign(gradients.size(), NAN);  // Must not count.
    for (std::size_t i = first; i < end; ++i) {
      fake.write(gradients, step, schedule.work[i].shard);
      if (i + 1 < end) exchange.finish_shard();
    }
    for (int b = 0; b < exchange.bucket_count(); ++b) {
      exchange.start_bucket(b);
      std::this_thread::sleep_for(std::chrono::microseconds(dawdle.below(300)));
      for (std::uint32_t n = dawdle.below(4); n > 0; --n) exchange.progress();
    }
    for (int b = 0; b < exchange.bucket_count(); ++b) exchange.finish_bucket(b);
  }
}

/// FNV-1a over the bytes of all buckets.
inline std::uint64_t hash_buckets(const std::vector<float>& gradients,
                                  const std::vector<Bucket>& buckets) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const Bucket& bucket : buckets)
    for (std::int64_t i = 0; i < bucket.elems; ++i) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, &gradients[std::size_t(bucket.offset + i)], sizeof bits);
      hash = (hash ^ bits) * 0x100000001b3ull;
    }
  return hash;
}

}  // namespace lockstep::testing
