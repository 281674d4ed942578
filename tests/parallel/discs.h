// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <memory>
#include <string>
#include <vector>

#include "core/base/random.h"
#include "lockstep/data/sources.h"
#include "lockstep/trainer.h"

namespace lockstep::testing {

/// Discs on noise, drawn at any size: the class is the quarter that the disc lies in.
class Discs final : public data::Dataset {
 public:
  Discs(std::int64_t count, int side, std::uint64_t seed = 1)
      : count_(count), side_(side), seed_(seed) {
    spec_.input = {{side, side, 3}, DType::u8};
    spec_.target = {{}, DType::i32};
    spec_.classes = 4;
    spec_.scale = {1.0f / 64};
    spec_.shift = {-2.0f};
  }
  const data::SampleSpec& spec() const override { return spec_; }
  std::int64_t size() const override { return count_; }
  void load(std::uint64_t, std::int64_t index, std::byte* input, std::byte* target) const override {
    const std::int32_t label = this->label(index);
    for (int y = 0; y < side_; ++y)
      for (int x = 0; x < side_; ++x) {
        const double dx = (x + 0.5) / side_ - (label % 2 == 0 ? 0.25 : 0.7);
        const double dy = (y + 0.5) / side_ - (label / 2 == 0 ? 0.3 : 0.75);
        const RandomBlock noise = philox(seed_, std::uint64_t(index), std::uint64_t(y * 64 + x));
        for (int c = 0; c < 3; ++c)
          *input++ = std::byte(noise[std::size_t(c)] % 90 + (std::hypot(dx, dy) < 0.2 ? 120 : 0));
      }
    std::memcpy(target, &label, sizeof label);
  }
  std::int32_t label(std::int64_t index) const override {
    return std::int32_t(philox(seed_, std::uint64_t(index), 7)[3] % 4);
  }
  std::string describe() const override { return "discs"; }
  std::uint64_t fingerprint() const override { return std::uint64_t(side_) * 1000 + seed_; }
  std::shared_ptr<const data::Dataset> resized(int size) const override {
    return std::make_shared<Discs>(count_, size, seed_);
  }

 private:
  std::int64_t count_;
  int side_;
  std::uint64_t seed_;
  data::SampleSpec spec_;
};

inline data::DataSplit discs(std::int64_t train, std::int64_t validation, int side) {
  return {std::make_shared<Discs>(train, side), std::make_shared<Discs>(validation, side, 2)};
}

/// Convolutions and batch norm, for images of any size.
inline Value disc_net(Builder& nn, Value x) {
  for (const int channels : {4, 8}) {
    x = nn.conv2d(x, {.out_channels = channels, .kernel = 3, .stride = 2, .padding = 1});
    x = nn.relu(nn.batch_norm(x));
  }
  return nn.linear(nn.dropout(nn.global_avg_pool(x), 0.1f), {.out_features = 4});
}

/// 4 micro-batches of 8 a step, the last of 6; an epoch's last batch has 20 samples.
inline TrainOptions disc_options() {
  TrainOptions options{.global_batch = 30, .micro_batch = 8, .steps = 12};
  options.optimizer = Sgd{.lr = 0.05f, .momentum = 0.9f};
  options.augmentation = data::parse_augmentation("shift,flip");
  options.log_every = 0;
  return options;
}

}  // namespace lockstep::testing
