// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/ranges.h>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/base/text/suggest.h"
#include "core/nn/gpt.h"
#include "core/nn/llama.h"
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

Applies of_gpt() {
  return with_model([](std::string_view model) { return model == "gpt"; },
                    "it belongs to --model gpt, which takes any size");
}

Applies of_llama() {
  return with_model([](std::string_view model) { return model == "llama"; },
                    "it belongs to --model llama, which takes any size");
}

void add_language_model_settings(SettingRows rows) {
  const nn::ModelSpec defaults = default_flags().model;
  const Applies of_both =
      with_model([](std::string_view model) { return model == "gpt" || model == "llama"; },
                 "it belongs to --model gpt and --model llama, which take any size");
  rows.whole("layers", LOCKSTEP_AT(model.layers), 1, "gpt, llama: transformer blocks", kMaxSize)
      .when(of_both)
      .shown_as(std::to_string(defaults.layers));
  rows.whole("heads", LOCKSTEP_AT(model.heads), 1, "gpt, llama: attention heads", kMaxSize)
      .when(of_both)
      .shown_as(std::to_string(defaults.heads));
  rows.whole("width",
             LOCKSTEP_AT(model.width),
             1,
             "gpt, llama: embedding dimension, a multiple of --heads",
             kMaxSize)
      .when(of_both)
      .shown_as(std::to_string(defaults.width));
  rows.on_off("bias", LOCKSTEP_AT(model.bias), "gpt: biases in linear layers and layer norms")
      .when(of_gpt())
      .shown_as("on");
  rows.on_off("tied-head",
              LOCKSTEP_AT(model.tied_head),
              "gpt, llama: weight tying of token embedding and output layer")
      .when(of_both)
      .shown_as("on");
  rows.choice("gelu",
              LOCKSTEP_AT(model.gelu),
              Words<ops::GeluKind>{{"tanh", ops::GeluKind::tanh}, {"erf", ops::GeluKind::erf}},
              "gpt: tanh approximation of GELU, or the exact one")
      .when(of_gpt())
      .shown_as("tanh");
}

constexpr const char* kNoScaling = "none";

void set_rope_scaling(TrainFlags& flags, const std::string& text) {
  ops::RotaryPositions rotary{.theta = flags.model.rotary.theta};
  if (text != kNoScaling) {
    std::vector<std::string> parts;
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find(':', begin), text.size());
      parts.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
    const bool numbers = parts.size() == 4 && std::ranges::all_of(parts, is_number);
    if (numbers) {
      rotary.factor = float(to_real_number(parts[0]));
      rotary.low_freq_factor = float(to_real_number(parts[1]));
      rotary.high_freq_factor = float(to_real_number(parts[2]));
      rotary.original_context = std::int64_t(to_real_number(parts[3]));
    }
    if (!numbers || rotary.factor <= 1 || rotary.low_freq_factor <= 0 ||
        rotary.high_freq_factor <= rotary.low_freq_factor || rotary.original_context < 1)
      throw ConfigError(
          fmt::format(
              "--rope-scaling: '{}' is not valid; expected none, or a factor above 1, a low "
              "frequency factor above 0, a higher one, and the context before",
              as_written(text)),
          "Llama 3.2 has --rope-scaling 32:1:4:8192");
  }
  flags.model.rotary = rotary;
}

std::string rope_scaling_text(const TrainFlags& flags) {
  const ops::RotaryPositions& r = flags.model.rotary;
  if (r.factor == 1.0f) return kNoScaling;
  return fmt::format(
      "{}:{}:{}:{}", r.factor, r.low_freq_factor, r.high_freq_factor, r.original_context);
}

void add_llama_settings(SettingRows rows) {
  const nn::ModelSpec defaults = default_flags().model;
  rows.whole("kv-heads",
             LOCKSTEP_AT(model.kv_heads),
             1,
             "llama: heads of keys and values, a divisor of --heads (grouped-query attention)",
             kMaxSize)
      .when(of_llama())
      .shown_as("--heads");
  rows.whole("mlp-width",
             LOCKSTEP_AT(model.mlp_width),
             1,
             "llama: width of the feed-forward layers",
             kMaxSize)
      .when(of_llama())
      .shown_as("8/3 of --width");
  rows.real("norm-eps",
            LOCKSTEP_AT(model.norm_eps),
            1e-12,
            1,
            "llama: added to the mean of the squares in RMSNorm")
      .when(of_llama())
      .shown_as(fmt::format("{}", defaults.norm_eps));
  rows.real("rope-theta",
            LOCKSTEP_AT(model.rotary.theta),
            1.001,
            1e12,
            "llama: base of the rotary positions' frequencies")
      .when(of_llama())
      .shown_as(fmt::format("{}", defaults.rotary.theta));
  rows.custom("rope-scaling",
              "none|FACTOR:LOW:HIGH:CONTEXT",
              "llama: scaling of the rotary positions' frequencies as Llama 3's: the factor, its "
              "low and high frequency factors, and the context trained on before",
              set_rope_scaling,
              rope_scaling_text)
      .when(of_llama())
      .shown_as(kNoScaling);
}

}  // namespace

void add_model_settings(std::vector<Setting>& table) {
  SettingRows rows(table, "Model");
  rows.custom("model",
              "NAME",
              fmt::format("one of {}; mlp for tables and gpt for texts, where none is given",
                          fmt::join(nn::model_names(), ", ")),
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
      .when(with_model(
          [](std::string_view model) { return model != "mlp" && !nn::reads_tokens(model); },
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
  const std::size_t first = table.size();
  add_language_model_settings(rows);
  add_llama_settings(rows);
  for (std::size_t i = first; i < table.size(); ++i) table[i].belongs_to("model");
}

}  // namespace lockstep
