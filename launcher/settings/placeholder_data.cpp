// SPDX-License-Identifier: Apache-2.0
#include "launcher/settings/placeholder_data.h"

#include <memory>

#include "core/base/error.h"
#include "core/data/text/token_windows.h"
#include "core/nn/zoo.h"
#include "launcher/settings/gpt_flags.h"
#include "launcher/settings/open_data.h"

namespace lockstep {
namespace {

constexpr std::int64_t kGpt2Vocabulary = 50257;

/// Extents of the images that a model is made for, and their classes.
struct ImageShape {
  std::int64_t side = 224, channels = 3, classes = 1000;
};

ImageShape usual_images(const CommandLineArguments& raw) {
  if (raw.model == "mlp" || raw.model == "convnet") return {28, 1, 10};  // glyphs
  if (!nn::has_stem(raw.model) || raw.stem == "cifar") return {32, 3, 10};
  return {};
}

data::DataSplit zero_tokens(const TrainFlags& flags) {
  const data::TokenSequence sequence = data::whole_sequence(
      data::tokens_in_memory(std::vector<std::uint16_t>(std::size_t(flags.context) + 1)),
      fmt::format("tokens, {} a sample", flags.context),
      flags.vocabulary > 0 ? flags.vocabulary : kGpt2Vocabulary);
  return {data::random_windows(sequence, flags.context, flags.options.seed, flags.ignore_index),
          data::windows_in_order(sequence, flags.context, flags.ignore_index)};
}

}  // namespace

void choose_placeholder(const CLI::App& app,
                        const PlaceholderData& stand_in,
                        CommandLineArguments& raw) {
  if (app.count("--data") > 0) {
    LOCKSTEP_CHECK(stand_in.classes == 0,
                   ConfigError,
                   "--classes has no meaning with --data {}, which has its own",
                   raw.data);
    return;
  }
  // mlp and convnet are made for the default.
  const bool sized = app.count("--image-size") > 0 || stand_in.classes > 0;
  if (!sized && (raw.model == "mlp" || raw.model == "convnet")) return;
  raw.stands_in = true;
  if (is_gpt(raw.model)) {
    LOCKSTEP_CHECK(stand_in.classes == 0,
                   ConfigError,
                   "--classes has no meaning with --model {}; --vocabulary says its tokens",
                   raw.model);
    raw.data = "tokens:";
    return;
  }
  ImageShape shape = usual_images(raw);
  if (app.count("--image-size") > 0) shape.side = raw.image_size;
  if (stand_in.classes > 0) shape.classes = stand_in.classes;
  raw.data =
      fmt::format("synthetic:{}x{}x{}:{}", shape.side, shape.side, shape.channels, shape.classes);
}

data::DataSplit open_stand_in(const TrainFlags& flags) {
  if (flags.stands_in && has_tokens(flags.data)) return zero_tokens(flags);
  return open_data(flags);
}

}  // namespace lockstep
