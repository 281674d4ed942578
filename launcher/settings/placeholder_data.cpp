// SPDX-License-Identifier: Apache-2.0
#include "launcher/settings/placeholder_data.h"

#include <memory>

#include "core/base/check.h"
#include "core/data/image.h"
#include "core/data/text/token_windows.h"
#include "core/nn/llama.h"
#include "launcher/settings/flag_values.h"
#include "launcher/settings/open_data.h"
#include "launcher/settings/table/settings_table.h"
#include "lockstep/zoo.h"

namespace lockstep {
namespace {

constexpr std::int64_t kGpt2Vocabulary = 50257;

std::int64_t usual_vocabulary(const std::string& model) {
  return nn::is_llama_preset(model) ? nn::vocabulary_of_llama_preset(model) : kGpt2Vocabulary;
}

data::DataSplit zero_tokens(const TrainFlags& flags) {
  const data::TokenSequence sequence = data::whole_sequence(
      data::tokens_in_memory(std::vector<std::uint16_t>(std::size_t(flags.context) + 1)),
      fmt::format("tokens, {} a sample", flags.context),
      flags.vocabulary > 0 ? flags.vocabulary : usual_vocabulary(flags.model.name));
  return {data::random_windows(sequence, flags.context, flags.options.seed, flags.ignore_index),
          data::windows_in_order(sequence, flags.context, flags.ignore_index)};
}

}  // namespace

void choose_placeholder(const PlaceholderData& placeholder, GivenSettings& given) {
  if (given.has("data")) {
    LOCKSTEP_CHECK(placeholder.classes == 0,
                   ConfigError,
                   "--classes cannot be combined with --data {}, which has its own",
                   given.text("data"));
    return;
  }
  const std::string model = given.text("model", default_flags().model.name);
  const nn::Stem stem = given.text("stem") == "cifar" ? nn::Stem::cifar : nn::Stem::imagenet;
  nn::ImageShape shape = nn::usual_images(model, stem);
  const bool sized = given.has("image-size") || placeholder.classes > 0;
  if (!sized && shape == nn::kDigits) return;  // as the default, glyphs, has them
  given.placeholder = true;
  if (nn::reads_tokens(model)) {
    LOCKSTEP_CHECK(placeholder.classes == 0,
                   ConfigError,
                   "--classes cannot be combined with --model {}; --vocabulary says its tokens",
                   model);
    given.set("data", {"tokens:"}, SettingSource::derived);
    return;
  }
  if (given.has("image-size"))
    shape.side = to_image_sizes("--image-size", given.text("image-size"), data::kMaxImageSize).last;
  if (placeholder.classes > 0) shape.classes = placeholder.classes;
  given.set(
      "data",
      {fmt::format("synthetic:{}x{}x{}:{}", shape.side, shape.side, shape.channels, shape.classes)},
      SettingSource::derived);
}

data::DataSplit open_placeholder(const TrainFlags& flags) {
  if (flags.placeholder && has_tokens(flags.data)) return zero_tokens(flags);
  return open_data(flags);
}

}  // namespace lockstep
