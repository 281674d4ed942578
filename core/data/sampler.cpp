// SPDX-License-Identifier: Apache-2.0
#include "core/data/sampler.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <numeric>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/random.h"

namespace lockstep::data {
namespace {

/// Counter bits that tell a rejected draw's replacements from first draws.
constexpr std::uint64_t kRedraw = std::uint64_t{1} << 63;

/// Lemire's unbiased integer in [0, bound) from `word`; position `i` keys the replacements of words
/// that would bias it, which come up with probability below bound / 2^32.
std::uint32_t below(std::uint32_t bound,
                    std::uint32_t word,
                    std::uint64_t key,
                    std::uint64_t epoch,
                    std::uint64_t i) {
  std::uint64_t product = std::uint64_t{word} * bound;
  if (std::uint32_t(product) < bound) [[unlikely]] {
    const std::uint32_t threshold = (0u - bound) % bound;
    for (std::uint64_t attempt = 0; std::uint32_t(product) < threshold; ++attempt)
      product = std::uint64_t{philox(key, epoch, kRedraw | attempt << 32 | i)[0]} * bound;
  }
  return std::uint32_t(product >> 32);
}

}  // namespace

/// Of one epoch.
struct Sampler::Order {
  std::uint64_t key = 0, epoch = 0;
  bool shuffled = false, prepared = false;
  std::vector<std::uint32_t> samples;
};

/// The orders of this process. Samplers of the same data have one together while they are in the
/// same epoch, as those of simulated ranks.
class Sampler::Orders {
 public:
  static Orders& of_process() {
    static Orders orders;
    return orders;
  }

  /// Any of such samples, as memory to begin with.
  std::shared_ptr<const Order> take(std::int64_t size, std::uint64_t key, bool shuffled) {
    const std::lock_guard lock(mutex_);
    std::erase_if(orders_, [](const std::weak_ptr<Order>& order) { return order.expired(); });
    const auto order = find([&](const Order& o) {
      return o.key == key && o.shuffled == shuffled && std::ssize(o.samples) == size;
    });
    return order ? order : make(size, key, shuffled);
  }

  /// That of `epoch`: one that is there, or else `own`, where no other sampler has it.
  std::shared_ptr<const Order> prepare(std::shared_ptr<const Order> own, std::uint64_t epoch) {
    const std::lock_guard lock(mutex_);
    const auto size = std::ssize(own->samples);
    const std::uint64_t key = own->key;
    const bool shuffled = own->shuffled;
    if (auto order = find([&](const Order& o) {
          return o.prepared && o.epoch == epoch && o.key == key && o.shuffled == shuffled &&
                 std::ssize(o.samples) == size;
        }))
      return order;
    std::shared_ptr<Order> order = find([&](const Order& o) { return &o == own.get(); });
    own.reset();
    if (order.use_count() > 1) order = make(size, key, shuffled);
    order->epoch = epoch;
    order->prepared = true;
    std::iota(order->samples.begin(), order->samples.end(), std::uint32_t{0});
    if (shuffled) shuffle(*order);
    return order;
  }

 private:
  template <typename Fits>
  std::shared_ptr<Order> find(Fits fits) const {
    for (const std::weak_ptr<Order>& order : orders_)
      if (std::shared_ptr<Order> living = order.lock(); living && fits(*living)) return living;
    return nullptr;
  }

  std::shared_ptr<Order> make(std::int64_t size, std::uint64_t key, bool shuffled) {
    const auto order = std::make_shared<Order>();
    order->key = key;
    order->shuffled = shuffled;
    order->samples.resize(std::size_t(size));
    orders_.push_back(order);
    return order;
  }

  static void shuffle(Order& order) {
    const auto size = std::ssize(order.samples);
    // One Philox block serves four swaps: position i, counted from the end, takes word i % 4.
    for (std::int64_t first = 0; first < size - 1; first += 4) {
      const RandomBlock words = philox(order.key, order.epoch, std::uint64_t(first / 4));
      for (std::int64_t i = first; i < std::min(first + 4, size - 1); ++i) {
        const std::int64_t left = size - i;
        const std::uint32_t chosen = below(std::uint32_t(left),
                                           words[std::size_t(i & 3)],
                                           order.key,
                                           order.epoch,
                                           std::uint64_t(i));
        std::swap(order.samples[std::size_t(left - 1)], order.samples[chosen]);
      }
    }
  }

  std::mutex mutex_;
  std::vector<std::weak_ptr<Order>> orders_;
};

Sampler::Sampler(std::int64_t size, std::uint64_t seed, bool shuffle)
    : size_(size), shuffle_(shuffle) {
  LOCKSTEP_CHECK(size >= 1 && size < (std::int64_t{1} << 32),
                 ConfigError,
                 "sampler: expected 1 to 2^32 - 1 samples, got {}",
                 size);
  order_ = Orders::of_process().take(size, random_key(seed, "sampler"), shuffle);
}

std::span<const std::uint32_t> Sampler::range(std::uint64_t epoch,
                                              std::int64_t first,
                                              std::int64_t count) {
  LOCKSTEP_ASSERT(first >= 0 && count >= 0 && first <= size_ - count);
  if (!shuffle_) epoch = 0;
  if (!order_->prepared || epoch != order_->epoch)
    order_ = Orders::of_process().prepare(std::move(order_), epoch);
  return std::span(order_->samples).subspan(std::size_t(first), std::size_t(count));
}

}  // namespace lockstep::data
