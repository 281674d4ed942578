// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "core/ops/attention.h"
#include "core/ops/conv2d.h"
#include "core/ops/linear.h"
#include "core/ops/matmul.h"
#include "tests/benchmarks/conv_layers.h"
#include "tests/gpu/rates.h"

namespace lockstep::rates {
namespace {

/// In which products are computed.
struct ProductType {
  std::string name;
  DType type;
  bool tf32 = false;
};
const ProductType kProductTypes[] = {
    {"bf16", DType::bf16}, {"f32", DType::f32}, {"tf32", DType::f32, true}};

struct LinearLayer {
  std::string name = {};
  Shape rows;  ///< the extents before the features
  std::int64_t in, out;
  bool bias = true;
  ops::Activation activation = ops::Activation::none;
  ops::Activation before = ops::Activation::none;  ///< GELU that makes x
  std::int64_t padded_out = 0;                     ///< length of y's rows, where not `out`
};

TensorType features(const Shape& rows, std::int64_t count, DType type) {
  std::vector<std::int64_t> dims(rows.dims().begin(), rows.dims().end());
  dims.push_back(count);
  return {Shape(dims), type};
}

void time_layer(Rates& rates, const LinearLayer& layer, const ProductType& type) {
  const TensorType x = features(layer.rows, layer.in, type.type);
  const TensorType y = features(layer.rows, std::max(layer.out, layer.padded_out), type.type);
  const TensorType w = f32({layer.out, layer.in}), b = f32({layer.out});
  const auto time = [&](const std::string& pass,
                        const std::string& name,
                        const Operator& op,
                        const std::vector<TensorType>& inputs,
                        bool bias) {
    const std::string activation(name_of(layer.activation));
    rates.time({.name = fmt::format("{} {}", name, layer.name),
                .shape = fmt::format("{} x {} -> {}", layer.rows.elems(), layer.in, layer.out),
                .type = type.type,
                .tf32 = type.tf32,
                .memory_bound = false,
                .accumulate = true,
                .torch = {{"kind", "linear"},
                          {"pass", pass},
                          {"type", type.name},
                          {"rows", layer.rows.elems()},
                          {"in", layer.in},
                          {"out", layer.out},
                          {"bias", bias},
                          {"activation", pass == "forward" ? activation : ""}}},
               op,
               inputs);
  };
  std::vector<TensorType> inputs{x, w};
  if (layer.bias) inputs.push_back(b);
  const ops::Linear forward(layer.bias, layer.activation, true, layer.padded_out);
  time("forward", "linear", forward, inputs, layer.bias);
  time("data", "linear_bwd_data", ops::LinearBwdData(), {y, w}, layer.bias);
  // PyTorch has no such product.
  if (layer.before != ops::Activation::none)
    rates.time({.name = fmt::format("linear_bwd_data gelu {}", layer.name),
                .shape = fmt::format("{} x {} -> {}", layer.rows.elems(), layer.in, layer.out),
                .type = type.type,
                .tf32 = type.tf32,
                .memory_bound = false},
               ops::LinearBwdData(layer.before),
               {y, w, x});
  const std::int64_t counted = layer.padded_out > 0 ? layer.out : 0;
  time("weights",
       "linear_bwd_weights",
       ops::LinearBwdWeights(layer.bias, counted),
       {x, y},
       layer.bias);
  // As an optimizer multiplies matrices of weights.
  if (type.type == DType::f32)
    rates.time({.name = fmt::format("matmul {}", layer.name),
                .shape = fmt::format("{} x {} x {}", layer.out, layer.in, layer.out),
                .type = type.type,
                .tf32 = type.tf32,
                .memory_bound = false},
               ops::Matmul({.transpose_b = true}),
               {w, w});
  // What the sums of the bias cost.
  if (layer.bias)
    time("weights", "linear_bwd_weights alone", ops::LinearBwdWeights(false), {x, y}, false);
}

void time_layer(Rates& rates,
                const benchmarks::ConvLayer& layer,
                std::int64_t samples,
                const ProductType& type) {
  const ops::Conv2dAttrs attrs{.stride_h = layer.stride,
                               .stride_w = layer.stride,
                               .padding_h = layer.padding(),
                               .padding_w = layer.padding()};
  const TensorType x{{samples, layer.size, layer.size, layer.in}, type.type};
  const TensorType y{{samples, layer.out_size(), layer.out_size(), layer.out}, type.type};
  const TensorType w = f32({layer.out, layer.kernel, layer.kernel, layer.in});
  const auto time = [&](const std::string& pass,
                        const std::string& name,
                        const Operator& op,
                        const std::vector<TensorType>& inputs) {
    rates.time({.name = fmt::format("{} {}x{}/{}", name, layer.kernel, layer.kernel, layer.stride),
                .shape = fmt::format("{} -> {}", x.shape.to_string(), layer.out),
                .type = type.type,
                .tf32 = type.tf32,
                .memory_bound = false,
                .accumulate = true,
                .torch = {{"kind", "conv2d"},
                          {"pass", pass},
                          {"type", type.name},
                          {"samples", samples},
                          {"size", layer.size},
                          {"in", layer.in},
                          {"out", layer.out},
                          {"kernel", layer.kernel},
                          {"stride", layer.stride},
                          {"padding", layer.padding()}}},
               op,
               inputs);
  };
  time("forward", "conv2d", ops::Conv2d(attrs), {x, w});
  // No node needs the gradient of an image.
  if (layer.in > 3) time("data", "conv2d_bwd_data", ops::Conv2dBwdData(attrs, x.shape), {y, w});
  time("weights", "conv2d_bwd_weights", ops::Conv2dBwdWeights(attrs, w.shape), {x, y});
}

}  // namespace

void time_attention(Rates& rates) {
  const std::int64_t samples = rates.small() ? 1 : 8, tokens = rates.small() ? 24 : 1024,
                     heads = rates.small() ? 2 : 12, width = 64 * heads;
  const ops::AttentionAttrs attrs{.heads = int(heads), .causal = true};
  for (DType type : {DType::bf16, DType::f32}) {
    const TensorType qkv{{samples, tokens, 3 * width}, type}, y{{samples, tokens, width}, type};
    const auto time = [&](const std::string& name, const Operator& op, const auto&... inputs) {
      rates.time({.name = name,
                  .shape = fmt::format("{} x {} x {} heads of 64", samples, tokens, heads),
                  .type = type,
                  .memory_bound = false},
                 op,
                 {inputs...});
    };
    const TensorType lse = f32({samples, heads, tokens});
    time("attention", ops::Attention(attrs), qkv);
    time("attention_bwd", ops::AttentionBwd(attrs), qkv, y, y, lse);
    if (type != DType::bf16) continue;
    // The own kernels against the library's: the lines of algorithms say which won, by how much.
    rates.backend().time_algorithms(true);
    time("attention timed", ops::Attention(attrs), qkv);
    time("attention_bwd timed", ops::AttentionBwd(attrs), qkv, y, y, lse);
    rates.backend().time_algorithms(false);
  }
}

void time_linear(Rates& rates) {
  const Shape rows = rates.small() ? Shape{2, 8} : Shape{8, 1024};
  const std::int64_t width = rates.small() ? 16 : 768, classes = rates.small() ? 72 : 50304;
  const std::int64_t odd = classes - (rates.small() ? 5 : 47);  // GPT-2's
  const auto gelu = ops::Activation::gelu_tanh;
  const LinearLayer layers[] = {
      {"qkv", rows, width, 3 * width},
      {"proj", rows, width, width},
      {"fc1", rows, width, 4 * width, true, gelu},
      {.name = "fc2", .rows = rows, .in = 4 * width, .out = width, .before = gelu},
      {"head", rows, width, classes, false},
      {"head, odd", rows, width, odd, false},
      {.name = "head, padded",
       .rows = rows,
       .in = width,
       .out = odd,
       .bias = false,
       .padded_out = classes},
      // The last layer of resnet50.
      rates.small() ? LinearLayer{"fc", {4}, 64, 40} : LinearLayer{"fc", {64}, 2048, 1000}};
  for (const ProductType& type : kProductTypes)
    for (const LinearLayer& layer : layers)
      if (layer.padded_out == 0 || type.type == DType::bf16) time_layer(rates, layer, type);
}

void time_convolutions(Rates& rates) {
  const int narrower = rates.small() ? 16 : 1;
  std::set<std::string> seen;
  for (benchmarks::ConvLayer layer : benchmarks::resnet50_layers(rates.small() ? 32 : 224, 3)) {
    if (layer.in > 3) layer.in /= narrower;
    layer.out /= narrower;
    const std::string name =
        fmt::format("{} {} {} {} {}", layer.in, layer.out, layer.size, layer.kernel, layer.stride);
    if (!seen.insert(name).second) continue;
    for (const ProductType& type : kProductTypes)
      time_layer(rates, layer, rates.small() ? 1 : 64, type);
  }
}

}  // namespace lockstep::rates
