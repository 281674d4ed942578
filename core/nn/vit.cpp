// SPDX-License-Identifier: Apache-2.0
#include "core/nn/vit.h"

#include <algorithm>

#include "core/base/check.h"

namespace lockstep::nn {
namespace {

constexpr float kInitDeviation = 0.02f, kNormEps = 1e-6f;
constexpr int kVitLayers = 12;

/// The names of parameters, without ".weight" and ".bias".
struct VitNames {
  const char *patches, *token, *positions, *block, *norm1, *qkv, *projection, *norm2, *fc1, *fc2,
      *norm, *head;
  char qkv_separator = '.';
};
constexpr VitNames kTimm{"patch_embed.proj",
                         "cls_token",
                         "pos_embed",
                         "blocks.{}",
                         "norm1",
                         "attn.qkv",
                         "attn.proj",
                         "norm2",
                         "mlp.fc1",
                         "mlp.fc2",
                         "norm",
                         "head"};
constexpr VitNames kTorchvision{"conv_proj",
                                "class_token",
                                "encoder.pos_embedding",
                                "encoder.layers.encoder_layer_{}",
                                "ln_1",
                                "self_attention.in_proj",
                                "self_attention.out_proj",
                                "ln_2",
                                "mlp.0",
                                "mlp.3",
                                "encoder.ln",
                                "heads.head",
                                '_'};

struct VitSize {
  std::string_view name;
  std::int64_t width;
  int heads;
  const VitNames& names;
};
constexpr VitSize kVits[] = {
    {"vit-ti16", 192, 3, kTimm}, {"vit-s16", 384, 6, kTimm}, {"vit-b16", 768, 12, kTorchvision}};

Value linear(Builder& nn, Value x, std::int64_t out, const char* name, char separator = '.') {
  return nn.linear(
      x,
      {.out_features = out, .normal_init = kInitDeviation, .name = name, .separator = separator});
}

Value block(const VitSize& size, float dropout, float skipped, Builder& nn, Value x) {
  const VitNames& names = size.names;
  Value h = nn.layer_norm(x, {.eps = kNormEps, .name = names.norm1});
  h = linear(nn, h, 3 * size.width, names.qkv, names.qkv_separator);
  h = nn.attention(h, {.heads = size.heads, .causal = false});
  h = nn.dropout(linear(nn, h, size.width, names.projection), dropout);
  x = nn.add(x, nn.stochastic_depth(h, skipped));
  h = nn.layer_norm(x, {.eps = kNormEps, .name = names.norm2});
  h = nn.dropout(nn.gelu(linear(nn, h, 4 * size.width, names.fc1), ops::GeluKind::erf), dropout);
  h = nn.dropout(linear(nn, h, size.width, names.fc2), dropout);
  return nn.add(x, nn.stochastic_depth(h, skipped));
}

}  // namespace

Value vit(const ModelSpec& spec, Builder& nn, Value x) {
  const VitSize* const size = std::ranges::find(kVits, spec.name, &VitSize::name);
  LOCKSTEP_ASSERT(size != std::end(kVits));
  const VitNames& names = size->names;
  const int patch = spec.stem == Stem::cifar ? 4 : 16;
  if (x.shape().rank() != 4 || x.shape()[1] % patch != 0 || x.shape()[2] % patch != 0)
    throw ShapeError(
        fmt::format("{}: expected images [N, H, W, C] with H and W multiples of {}, got {}",
                    spec.name,
                    patch,
                    x.type().to_string()),
        "`image_size` 224; `stem` cifar has patches of 4 x 4");
  x = nn.conv2d(
      x, {.out_channels = size->width, .kernel = patch, .stride = patch, .name = names.patches});
  x = nn.class_token(
      x, {.init_deviation = kInitDeviation, .name = names.token, .position_name = names.positions});
  x = nn.dropout(x, spec.dropout);
  for (int layer = 0; layer < kVitLayers; ++layer) {
    const Builder::Scope scope = nn.scope(fmt::format(fmt::runtime(names.block), layer));
    const float skipped = spec.stochastic_depth * float(layer) / float(kVitLayers - 1);
    x = block(*size, spec.dropout, skipped, nn, x);
  }
  // The class token alone is read, and a norm sees one token at a time.
  x = nn.layer_norm(nn.narrow(x, 0, 1), {.eps = kNormEps, .name = names.norm});
  return linear(nn, nn.flatten(x), spec.outputs, names.head);
}

}  // namespace lockstep::nn
