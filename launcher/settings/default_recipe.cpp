// SPDX-License-Identifier: Apache-2.0
#include "launcher/settings/default_recipe.h"

#include <algorithm>
#include <array>

namespace lockstep {
namespace {

struct Row {
  std::string_view models;  // begin with this
  DefaultRecipe recipe;
};

constexpr DefaultRecipe with_cosine(const Optimizer& optimizer, float clip_norm = 0) {
  return {optimizer, "cosine", "auto", clip_norm};
}

/// GPT-3's (Brown et al. 2020, table 2.1 and appendix B), which nanoGPT uses as well.
constexpr DefaultRecipe gpt2(float lr) {
  return with_cosine(AdamW{.lr = lr, .beta2 = 0.95f, .weight_decay = 0.1f}, 1.0f);
}

// The first row that fits counts.
// - ResNets: He et al. 2015 with a cosine in place of the steps; the rate is for a batch of 256.
// - airbench94: Jordan 2024 (arXiv 2404.00498), without Nesterov; the rate is for a batch of 1024.
// - VGGs: torchvision's reference training.
// - MobileNets: torchvision's reference training of mobilenet_v2, with a cosine in place of the
//   steps; the rate is for a batch of 256.
// - ConvNeXts: Liu et al. 2022, table 5; the rate is for a batch of 512.
// - ViTs: DeiT's (Touvron et al. 2021, table 9); the rate is for a batch of 512.
// - gpt: nanoGPT's training of small models of characters.
// - llama: llama2.c's training of small models of stories; presets as GPT-3's of their size.
const std::array<Row, 17> kRows{{
    {"mlp", {Sgd{}}},
    {"resnet", with_cosine(Sgd{.lr = 0.1f, .momentum = 0.9f, .weight_decay = 1e-4f})},
    {"airbench94",
     {Sgd{.lr = 1.5f, .momentum = 0.85f, .weight_decay = 0.00133f}, "linear", "auto"}},
    {"vgg", with_cosine(Sgd{.lr = 0.01f, .momentum = 0.9f, .weight_decay = 5e-4f})},
    {"mobilenet", with_cosine(Sgd{.lr = 0.045f, .momentum = 0.9f, .weight_decay = 4e-5f})},
    {"convnext", with_cosine(AdamW{.lr = 5e-4f, .weight_decay = 0.05f})},
    {"vit", with_cosine(AdamW{.lr = 5e-4f, .weight_decay = 0.05f})},
    {"gpt2-124m", gpt2(6e-4f)},
    {"gpt2-355m", gpt2(3e-4f)},
    {"gpt2-774m", gpt2(2.5e-4f)},
    {"gpt2-", gpt2(2e-4f)},
    {"gpt", with_cosine(AdamW{.lr = 1e-3f, .beta2 = 0.99f, .weight_decay = 0.1f}, 1.0f)},
    {"llama-3.2-1b", gpt2(2e-4f)},
    {"llama", gpt2(5e-4f)},
    {"smollm-360m", gpt2(3e-4f)},
    {"smollm", gpt2(6e-4f)},
    {"", with_cosine(Sgd{.lr = 0.02f, .momentum = 0.9f, .weight_decay = 5e-4f})},
}};

}  // namespace

const DefaultRecipe& default_recipe(std::string_view name) {
  return std::ranges::find_if(kRows, [&](const Row& row) { return name.starts_with(row.models); })
      ->recipe;
}

std::string_view default_model(std::string_view source_kind) {
  if (source_kind == "csv") return "mlp";
  if (source_kind == "text" || source_kind == "tokens") return "gpt";
  return "convnet";
}

}  // namespace lockstep
