// SPDX-License-Identifier: Apache-2.0
#include "core/nn/zoo.h"

#include "core/base/error.h"
#include "core/base/suggest.h"
#include "core/nn/gpt.h"
#include "core/nn/resnet.h"

namespace lockstep::nn {
namespace {

Value mlp(const ModelSpec& spec, Builder& nn, Value x) {
  // torch.nn.Sequential numbers layers with parameters and those without alike.
  int index = 0;
  x = nn.flatten(x);
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

}  // namespace

std::vector<std::string_view> model_names() {
  return {"mlp",
          "convnet",
          "resnet20",
          "resnet18",
          "gpt",
          "gpt2-124m",
          "gpt2-355m",
          "gpt2-774m",
          "gpt2-1.5b"};
}

ModelFunction make_model(const ModelSpec& spec) {
  LOCKSTEP_CHECK(spec.outputs >= 1, ConfigError, "model: needs at least one output");
  LOCKSTEP_CHECK(spec.dropout >= 0.0f && spec.dropout < 1.0f,
                 ConfigError,
                 "model: dropout must be in [0, 1), got {}",
                 spec.dropout);
  for (std::int64_t width : spec.hidden)
    LOCKSTEP_CHECK(
        width >= 1, ConfigError, "model: hidden widths must be at least 1, got {}", width);
  using Build = Value (*)(const ModelSpec&, Builder&, Value);
  constexpr std::pair<std::string_view, Build> kModels[] = {{"mlp", mlp},
                                                            {"convnet", convnet},
                                                            {"resnet20", resnet20},
                                                            {"resnet18", resnet18},
                                                            {"gpt", gpt}};
  if (is_gpt2_preset(spec.name)) {
    ModelSpec preset = spec;
    apply_gpt2_preset(preset);
    return [preset](Builder& nn, Value x) { return gpt(preset, nn, x); };
  }
  for (const auto& [name, build] : kModels)
    if (name == spec.name)
      return [spec, build = build](Builder& nn, Value x) { return build(spec, nn, x); };
  throw ConfigError(fmt::format("model: '{}' is not known", spec.name),
                    fmt::format("did you mean '{}'? models: {}",
                                nearest(spec.name, model_names()),
                                fmt::join(model_names(), ", ")));
}

}  // namespace lockstep::nn
