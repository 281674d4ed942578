// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "core/base/check.h"
#include "core/base/random.h"
#include "core/data/images/image_samples.h"
#include "core/data/input_file.h"
#include "lockstep/data/sources.h"

namespace lockstep::data {
namespace {

constexpr std::int64_t kSamples = 100'000;  // an epoch
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 28;
/// Noise drawn once; a sample is a stretch of it that starts anywhere in the first half.
constexpr std::int64_t kMinNoise = std::int64_t{1} << 18;

class Synthetic final : public Dataset {
 public:
  Synthetic(const SyntheticShape& shape, std::uint64_t seed)
      : shape_(shape), seed_(seed), key_(random_key(seed, "synthetic")) {
    spec_ = image_spec(1, shape.classes);  // what three channels are normalised by
    spec_.input.shape = {shape.height, shape.width, shape.channels};
    if (shape.channels != 3) {
      // Mean and deviation of evenly spread bytes.
      spec_.scale = {1.0f / 73.9f};
      spec_.shift = {-127.5f / 73.9f};
    }
    const std::int64_t bytes = std::int64_t(spec_.input.bytes());
    starts_ = std::max(bytes, kMinNoise);
    noise_.resize(std::size_t(starts_ + bytes + 16));
    for (std::size_t i = 0; i + 16 <= noise_.size(); i += 16) {
      const RandomBlock words = philox(key_, i, 0);
      std::memcpy(noise_.data() + i, words.data(), 16);
    }
  }

  const SampleSpec& spec() const override { return spec_; }
  std::int64_t size() const override { return kSamples; }
  void load(std::uint64_t epoch,
            std::int64_t index,
            std::byte* input,
            std::byte* target) const override {
    const RandomBlock words = philox(key_, std::uint64_t(index), epoch + 1);
    const auto pick = [](std::uint32_t word, std::int64_t count) {
      return std::int64_t(std::uint64_t{word} * std::uint64_t(count) >> 32);
    };
    std::memcpy(input, noise_.data() + pick(words[0], starts_), spec_.input.bytes());
    const auto label = std::int32_t(pick(words[1], shape_.classes));
    std::memcpy(target, &label, sizeof label);
  }
  std::string describe() const override {
    return fmt::format(
        "synthetic, {} samples of noise of {}x{}x{} in {} classes, new ones every "
        "epoch",
        size(),
        shape_.height,
        shape_.width,
        shape_.channels,
        shape_.classes);
  }
  std::shared_ptr<const Dataset> resized(int size) const override {
    return std::make_shared<Synthetic>(SyntheticShape{size, size, shape_.channels, shape_.classes},
                                       seed_);
  }
  std::uint64_t fingerprint() const override {
    return content_hash(noise_.data(), 64, std::uint64_t(spec_.input.bytes()) + key_);
  }

 private:
  SyntheticShape shape_;
  std::uint64_t seed_, key_;
  SampleSpec spec_;
  std::int64_t starts_ = 0;
  std::vector<std::byte> noise_;
};

}  // namespace

DataSplit synthetic(const SyntheticShape& shape, std::uint64_t seed) {
  const bool positive =
      shape.height >= 1 && shape.width >= 1 && shape.channels >= 1 && shape.classes >= 1;
  LOCKSTEP_CHECK(positive && shape.height <= kMaxBytes && shape.width <= kMaxBytes &&
                     shape.channels <= kMaxBytes &&
                     shape.height * shape.width <= kMaxBytes / shape.channels,
                 ConfigError,
                 "synthetic: expected extents and classes of at least 1 and at most {} bytes a "
                 "sample, got {}x{}x{} in {} classes",
                 kMaxBytes,
                 shape.height,
                 shape.width,
                 shape.channels,
                 shape.classes);
  return {std::make_shared<Synthetic>(shape, seed), nullptr};
}

}  // namespace lockstep::data
