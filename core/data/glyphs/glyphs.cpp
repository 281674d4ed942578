// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "core/base/check.h"
#include "core/base/random.h"
#include "core/data/glyphs/glyph_renderer.h"
#include "core/data/preprocessing.h"
#include "lockstep/data/preprocessing.h"
#include "lockstep/data/sources.h"

namespace lockstep::data {
namespace {

// Mean and deviation of the pixels in [0, 1], measured on 60,000 images.
constexpr float kGlyphsMean = 0.1689f;
constexpr float kGlyphsDeviation = 0.2194f;

class Glyphs final : public Dataset {
 public:
  enum class Part { train, validation };

  Glyphs(Part part, std::int64_t size, std::uint64_t seed) : part_(part), size_(size) {
    const bool train = part == Part::train;
    LOCKSTEP_CHECK(size >= 1,
                   ConfigError,
                   "glyphs: expected at least 1 {} image, got {}",
                   train ? "training" : "validation",
                   size);
    key_ = random_key(seed, train ? "glyphs/train" : "glyphs/validation");
    spec_.input = {{kGlyphSize, kGlyphSize, 1}, DType::u8};
    spec_.target = {{}, DType::i32};
    spec_.classes = kGlyphClasses;
    spec_.scale = {1.0f / 255.0f / kGlyphsDeviation};
    spec_.shift = {-kGlyphsMean / kGlyphsDeviation};
  }

  const SampleSpec& spec() const override { return spec_; }
  std::int64_t size() const override { return size_; }
  void load(std::uint64_t epoch,
            std::int64_t index,
            std::byte* input,
            std::byte* target) const override {
    // The validation images stay the same in all epochs.
    const std::uint64_t first = part_ == Part::train ? epoch * std::uint64_t(size_) : 0;
    const std::int32_t digit = draw_glyph(key_, first + std::uint64_t(index), input);
    std::memcpy(target, &digit, sizeof digit);
  }
  std::string describe() const override {
    return fmt::format("glyphs, {} drawn images of 28x28x1 in 10 classes{}",
                       size_,
                       part_ == Part::train ? ", new ones every epoch" : "");
  }
  Preprocessing preprocessing() const override {
    return image_preprocessing(*this, "glyphs", int(kGlyphSize));
  }
  std::uint64_t fingerprint() const override {
    return random_key(key_ ^ std::uint64_t(size_), "glyphs 1");
  }

 private:
  Part part_;
  std::int64_t size_;
  std::uint64_t key_ = 0;
  SampleSpec spec_;
};

}  // namespace

DataSplit glyphs(std::int64_t train_size, std::int64_t validation_size, std::uint64_t seed) {
  return {std::make_shared<Glyphs>(Glyphs::Part::train, train_size, seed),
          std::make_shared<Glyphs>(Glyphs::Part::validation, validation_size, seed)};
}

}  // namespace lockstep::data
