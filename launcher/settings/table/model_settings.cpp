// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/ranges.h>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/base/suggest.h"
#include "core/nn/gpt.h"
#include "launcher/settings/table/settings_table.h"
#include "lockstep/zoo.h"

namespace lockstep {
namespace {

constexpr std::int64_t kMaxSize = 1 << 20;

void set_model(TrainFlags& flags, const std::string& name) {
  const std::vector<std::string_view> names = nn::model_names();
  if (std::ranges::find(names, name) == names.end()) {
    const std::string best = nearest(name, names);
    throw ConfigError(fmt::format("unknown model '{}'", as_written(name)),
                      best.empty() ? fmt::format("models: {}", list_of(names))
                                   : fmt::format("did you mean --model {}?", best));
  }
  flags.model.name = name;
}

void set_hidden(TrainFlags& flags, const Texts& texts) {
  std::vector<std::int64_t>& sizes = flags.model.hidden;
  sizes.clear();
  if (texts == Texts{"none"}) return;
  for (const std::string& text : texts) {
    const std::int64_t value = to_whole_number(text);
    LOCKSTEP_CHECK(value >= 1 && value <= kMaxSize,
                   ConfigError,
                   "--hidden: '{}' is not a valid size; expected whole numbers from 1 to {}, as in "
                   "--hidden 64,64, or none",
                   as_written(text),
                   kMaxSize);
    sizes.push_back(value);
  }
}

std::optional<Texts> hidden_texts(const TrainFlags& flags) {
  Texts texts;
  for (const std::int64_t size : flags.model.hidden) texts.push_back(std::to_string(size));
  if (texts.empty()) texts.emplace_back("none");
  return texts;
}

Applies with_model(bool (*holds)(std::string_view), std::string hint) {
  return {"model",
          [holds](const TrainFlags& flags, std::string_view) { return holds(flags.model.name); },
          std::move(hint)};
}

void add_gpt_settings(SettingRows rows, std::vector<Setting>& table) {
  const std::size_t first = table.size();
  rows.whole("layers", LOCKSTEP_AT(model.layers), 1, "gpt: transformer blocks", kMaxSize);
  rows.whole("heads", LOCKSTEP_AT(model.heads), 1, "gpt: attention heads", kMaxSize);
  rows.whole("width",
             LOCKSTEP_AT(model.width),
             1,
             "gpt: embedding dimension, a multiple of --heads",
             kMaxSize);
  rows.on_off("bias", LOCKSTEP_AT(model.bias), "gpt: biases in linear layers and layer norms");
  rows.on_off("tied-head",
              LOCKSTEP_AT(model.tied_head),
              "gpt: weight tying of token embedding and output layer");
  rows.choice("gelu",
              LOCKSTEP_AT(model.gelu),
              Words<ops::GeluKind>{{"tanh", ops::GeluKind::tanh}, {"erf", ops::GeluKind::erf}},
              "gpt: tanh approximation of GELU, or the exact one");
  const nn::ModelSpec gpt = default_flags().model;
  for (std::size_t i = first; i < table.size(); ++i)
    table[i].when(with_model([](std::string_view model) { return model == "gpt"; },
                             "it belongs to --model gpt, which takes any size"));
  table[first].shown_as(std::to_string(gpt.layers));
  table[first + 1].shown_as(std::to_string(gpt.heads));
  table[first + 2].shown_as(std::to_string(gpt.width));
  table[first + 3].shown_as("on");
  table[first + 4].shown_as("on");
  table[first + 5].shown_as("tanh");
}

}  // namespace

bool is_gpt(std::string_view model) { return model == "gpt" || nn::is_gpt2_preset(model); }

void add_model_settings(std::vector<Setting>& table) {
  SettingRows rows(table, "Model");
  rows.custom("model",
              "NAME",
              fmt::format("one of {}", fmt::join(nn::model_names(), ", ")),
              set_model,
              [](const TrainFlags& flags) { return flags.model.name; });
  Setting& hidden = rows.add("hidden", "N,N,...", "mlp: sizes of the hidden layers, or none");
  hidden.arity = Setting::Arity::list;
  hidden.commas = true;
  hidden.set = set_hidden;
  hidden.get = hidden_texts;
  hidden
      .when(with_model([](std::string_view model) { return model == "mlp"; },
                       "it belongs to --model mlp"))
      .shown_as("128");
  rows.choice(
          "stem",
          LOCKSTEP_AT(model.stem),
          Words<nn::Stem>{{"imagenet", nn::Stem::imagenet}, {"cifar", nn::Stem::cifar}},
          "cifar is for small images: ResNets have a 3x3 stride-1 stem without max-pool, VGG a "
          "single linear layer on averaged features, MobileNetV2 less stride, ConvNeXt patches of "
          "2x2, ViT of 4x4")
      .when(with_model([](std::string_view model) { return nn::has_stem(std::string(model)); },
                       "it belongs to the models of ImageNet: resnet18 and larger, vgg*, "
                       "mobilenet-*, convnext-*, vit-*"))
      .shown_as("imagenet");
  rows.real("dropout",
            LOCKSTEP_AT(model.dropout),
            0,
            0.999999,
            "dropout probability before the last layer; mlp, vgg: after every hidden one");
  rows.real("stochastic-depth",
            LOCKSTEP_AT(model.stochastic_depth),
            0,
            0.999999,
            "vit, convnext: probability that a sample skips a branch of the last block; it falls "
            "to 0 in the "
            "first (drop path)")
      .when(with_model(
          [](std::string_view model) {
            return model.starts_with("vit-") || model.starts_with("convnext-");
          },
          "it belongs to the models vit-* and convnext-*"));
  for (Setting& row : table) row.belongs_to("model");
  rows.custom(
          "batch-norm",
          "local|sync|group:G",
          "samples normalized together: a micro-batch, all ranks' concurrent micro-batches "
          "(SyncBatchNorm), or exactly G samples",
          [](TrainFlags& flags, const std::string& text) {
            flags.options.batch_norm = BatchNormPolicy::parse(text);
          },
          [](const TrainFlags& flags) { return flags.options.batch_norm.to_string(); })
      .when(with_model([](std::string_view model) { return model != "mlp" && !is_gpt(model); },
                       "this model has no batch norm"));
  rows.text(
      "init",
      "FILE|DIR",
      LOCKSTEP_AT(options.init),
      "pretrained weights with PyTorch's parameter names: safetensors, .pth, an index of shards, "
      "or a folder; Hugging Face's sets the model too");
  rows.patterns(
          "init-skip",
          LOCKSTEP_AT(options.init_skip),
          "parameters that are initialized randomly in spite of --init, as a new head; may be "
          "repeated")
      .when({"init",
             [](const TrainFlags& flags, std::string_view) { return !flags.options.init.empty(); },
             "--init names the file"});
  rows.patterns(
      "freeze",
      LOCKSTEP_AT(options.freeze),
      "parameters that are not trained; may be repeated. Batch norm's running statistics are "
      "updated all the same");
  const std::size_t gpt = table.size();
  add_gpt_settings(rows, table);
  for (std::size_t i = gpt; i < table.size(); ++i) table[i].belongs_to("model");
}

}  // namespace lockstep
