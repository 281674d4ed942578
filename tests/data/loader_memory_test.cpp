// SPDX-License-Identifier: Apache-2.0
// What a loader takes is known before it is made.
#include <atomic>
#include <gtest/gtest.h>
#include <memory>
#include <utility>

#include "lockstep/data/augment.h"
#include "lockstep/data/loader.h"
#include "lockstep/data/sources.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

TEST(LoaderMemory, IsPlannedAsItIsMade) {
  const auto data = glyphs(64, 16).train;
  for (const int workers : {0, 1, 3}) {
    const LoaderOptions options{
        .workers = workers, .micro_batch = 5, .augmentation = parse_augmentation("flip")};
    const Loader loader(data, options, [](LoadRequest&) { return false; });
    EXPECT_EQ(Loader::memory_bytes(*data, options), loader.memory_bytes());
  }
}

/// Samples that cannot be read, so that how long that takes cannot be measured.
class Unreadable final : public Dataset {
 public:
  explicit Unreadable(std::shared_ptr<const Dataset> like) : like_(std::move(like)) {}
  const SampleSpec& spec() const override { return like_->spec(); }
  std::int64_t size() const override { return like_->size(); }
  void load(std::uint64_t, std::int64_t, std::byte*, std::byte*) const override {
    ++loads;
    throw DataError("unreadable", "");
  }
  std::string describe() const override { return like_->describe(); }
  std::uint64_t fingerprint() const override { return 0; }

  mutable std::atomic<int> loads = 0;

 private:
  std::shared_ptr<const Dataset> like_;
};

TEST(LoaderMemory, OfOpenWorkersIsPlannedAtItsMostWithoutLoading) {
  const auto data = glyphs(64, 16).train;
  const LoaderOptions options{.workers = -1, .micro_batch = 5};
  const Loader fast(data, options, [](LoadRequest&) { return false; });
  const std::size_t planned = Loader::memory_bytes(*data, options);
  EXPECT_GE(planned, fast.memory_bytes());
  const auto unreadable = std::make_shared<Unreadable>(data);
  EXPECT_EQ(Loader::memory_bytes(*unreadable, options), planned);
  EXPECT_EQ(unreadable->loads, 0);
  const Loader with_workers(unreadable, options, [](LoadRequest&) { return false; });
  EXPECT_EQ(with_workers.memory_bytes(), planned);
}

}  // namespace
}  // namespace lockstep::data
