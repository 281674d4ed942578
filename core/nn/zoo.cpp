// SPDX-License-Identifier: Apache-2.0
#include "lockstep/zoo.h"

#include <algorithm>
#include <fmt/ranges.h>
#include <iterator>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/base/text/suggest.h"
#include "core/data/embedded_column.h"
#include "core/nn/airbench.h"
#include "core/nn/convnext.h"
#include "core/nn/gpt.h"
#include "core/nn/llama.h"
#include "core/nn/mobilenet.h"
#include "core/nn/resnet.h"
#include "core/nn/vgg.h"
#include "core/nn/vit.h"

namespace lockstep::nn {
namespace {

Value mlp(const ModelSpec& spec, Builder& nn, Value x) {
  // torch.nn.Sequential numbers layers with parameters and those without alike.
  int index = 0;
  x = nn.column_embedding(nn.flatten(x));
  for (std::int64_t width : spec.hidden) {
    x = nn.relu(nn.linear(x, {.out_features = width, .name = std::to_string(index)}));
    index += 2;
    if (spec.dropout > 0.0f) {
      x = nn.dropout(x, spec.dropout);
      ++index;
    }
  }
  return nn.linear(x, {.out_features = spec.outputs, .name = std::to_string(index)});
}

Value convnet(const ModelSpec& spec, Builder& nn, Value x) {
  int stage = 0;
  for (std::int64_t channels : {32, 64}) {
    ++stage;
    x = nn.conv2d(x,
                  {.out_channels = channels,
                   .kernel = 3,
                   .padding = 1,
                   .bias = false,
                   .name = fmt::format("conv{}", stage)});
    x = nn.relu(nn.batch_norm(x, {.name = fmt::format("bn{}", stage)}));
    x = nn.max_pool2d(x, {.kernel = 2});
  }
  x = nn.dropout(nn.flatten(x), spec.dropout);
  return nn.linear(x, {.out_features = spec.outputs, .name = "fc"});
}

struct ZooModel {
  std::string_view name;
  Value (*build)(const ModelSpec&, Builder&, Value);
  ImageShape images = {};
  bool has_stem = false;
  bool embeds_columns = false;
};
constexpr ImageShape kCifar{32, 3, 10}, kImageNet{224, 3, 1000};
constexpr ZooModel kModels[] = {{"mlp", mlp, kDigits, false, true},
                                {"convnet", convnet, kDigits},
                                {"resnet20", resnet20, kCifar},
                                {"airbench94", airbench94, kCifar},
                                {"resnet18", resnet18, kImageNet, true},
                                {"resnet34", resnet34, kImageNet, true},
                                {"resnet50", resnet50, kImageNet, true},
                                {"resnet101", resnet101, kImageNet, true},
                                {"resnet152", resnet152, kImageNet, true},
                                {"vgg11", vgg11, kImageNet, true},
                                {"vgg16", vgg16, kImageNet, true},
                                {"mobilenet-v2", mobilenet_v2, kImageNet, true},
                                {"convnext-tiny", convnext_tiny, kImageNet, true},
                                {"vit-ti16", vit, kImageNet, true},
                                {"vit-s16", vit, kImageNet, true},
                                {"vit-b16", vit, kImageNet, true},
                                {"gpt", gpt},
                                {"gpt2-124m", gpt},
                                {"gpt2-355m", gpt},
                                {"gpt2-774m", gpt},
                                {"gpt2-1.5b", gpt},
                                {"llama", llama},
                                {"smollm-135m", llama},
                                {"smollm-360m", llama},
                                {"llama-3.2-1b", llama}};

const ZooModel* find(std::string_view name) {
  const auto* const found = std::ranges::find(kModels, name, &ZooModel::name);
  return found == std::end(kModels) ? nullptr : found;
}

void refuse_embedded(const ZooModel& model, const Builder& nn) {
  if (model.embeds_columns || nn.embedded_columns().empty()) return;
  throw ConfigError(
      fmt::format("model: {} takes no tables with embedded columns, as feature {} of the data is",
                  model.name,
                  nn.embedded_columns()[0].feature),
      "mlp does; TableOptions::one_hot_columns keeps a column one-hot");
}

}  // namespace

std::vector<std::string_view> model_names() {
  std::vector<std::string_view> names;
  for (const ZooModel& model : kModels) names.push_back(model.name);
  return names;
}

bool reads_tokens(std::string_view model) {
  const ZooModel* const known = find(model);
  return known != nullptr && (known->build == gpt || known->build == llama);
}

bool has_stem(std::string_view model) {
  const ZooModel* const known = find(model);
  return known != nullptr && known->has_stem;
}

ImageShape usual_images(std::string_view model, Stem stem) {
  const ZooModel* const known = find(model);
  if (known == nullptr) return {};
  return known->has_stem && stem == Stem::cifar ? kCifar : known->images;
}

ModelFunction make_model(const ModelSpec& spec) {
  LOCKSTEP_CHECK(spec.outputs >= 1, ConfigError, "model: needs at least one output");
  LOCKSTEP_CHECK(spec.dropout >= 0.0f && spec.dropout < 1.0f,
                 ConfigError,
                 "model: dropout must be in [0, 1), got {}",
                 spec.dropout);
  LOCKSTEP_CHECK(spec.stochastic_depth >= 0.0f && spec.stochastic_depth < 1.0f,
                 ConfigError,
                 "model: stochastic_depth must be in [0, 1), got {}",
                 spec.stochastic_depth);
  for (std::int64_t width : spec.hidden)
    LOCKSTEP_CHECK(
        width >= 1, ConfigError, "model: hidden widths must be at least 1, got {}", width);
  if (const ZooModel* const model = find(spec.name)) {
    ModelSpec sized = spec;
    if (is_gpt2_preset(spec.name)) apply_gpt2_preset(sized);
    if (is_llama_preset(spec.name)) apply_llama_preset(sized);
    return [sized, model](Builder& nn, Value x) {
      refuse_embedded(*model, nn);
      return model->build(sized, nn, x);
    };
  }
  throw ConfigError(fmt::format("model: '{}' is not known", as_written(spec.name)),
                    fmt::format("did you mean '{}'? models: {}",
                                nearest(spec.name, model_names()),
                                fmt::join(model_names(), ", ")));
}

}  // namespace lockstep::nn
