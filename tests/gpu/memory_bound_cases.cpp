// SPDX-License-Identifier: Apache-2.0
#include "core/ops/activations/gelu.h"
#include "core/ops/activations/relu.h"
#include "core/ops/activations/swiglu.h"
#include "core/ops/add.h"
#include "core/ops/cast.h"
#include "core/ops/channel_scale.h"
#include "core/ops/dropout.h"
#include "core/ops/embedding/column_embedding.h"
#include "core/ops/losses/binary_cross_entropy.h"
#include "core/ops/losses/distillation_loss.h"
#include "core/ops/losses/regression_losses.h"
#include "core/ops/normalize.h"
#include "core/ops/norms/batch_norm.h"
#include "core/ops/pooling/avg_pool2d.h"
#include "core/ops/pooling/global_avg_pool.h"
#include "core/ops/pooling/max_pool2d.h"
#include "core/ops/scale.h"
#include "tests/gpu/rates.h"

namespace lockstep::rates {
namespace {

/// Everything that works element by element, on tensors of `bytes`.
void time_flat_tensors(Rates& rates, std::int64_t bytes, DType type) {
  constexpr std::int64_t kSamples = 64;
  const TensorType x{{kSamples, bytes / kSamples / std::int64_t(size_in_bytes(type))}, type};
  const auto time = [&](const std::string& name, const Operator& op, const auto&... inputs) {
    rates.time({.name = name, .type = type}, op, {inputs...});
  };
  time("relu", ops::Relu(), x);
  time("relu_bwd", ops::ReluBwd(), x, x);
  time("add", ops::Add(), x, x);
  time("scale", ops::Scale(0.5f), x);
  time("channel_scale", ops::ChannelScale(), x, TensorType{{x.shape[1]}, DType::f32});
  time("channel_scale_bwd", ops::ChannelScaleBwd(), x, x, TensorType{{x.shape[1]}, DType::f32});
  time("dropout", ops::Dropout(0.1f), x);
  for (ops::GeluKind kind : {ops::GeluKind::erf, ops::GeluKind::tanh}) {
    time(fmt::format("gelu {}", ops::name_of(kind)), ops::Gelu(kind), x);
    time(fmt::format("gelu_bwd {}", ops::name_of(kind)), ops::GeluBwd(kind), x, x);
  }
  time("swiglu", ops::Swiglu(), x, x);
  time("swiglu_bwd", ops::SwigluBwd(), x, x, x);
  const DType other = type == DType::f32 ? DType::bf16 : DType::f32;
  time(fmt::format("cast to {}", name_of(other)), ops::Cast(other), x);
}

/// Images of bytes and of floats become activations.
void time_normalize(Rates& rates, DType type) {
  const Shape images = rates.small() ? Shape{2, 8, 8, 3} : Shape{256, 224, 224, 3};
  const ops::Normalize op({0.1f, 0.2f, 0.3f}, {0.4f, 0.5f, 0.6f}, type);
  rates.time(
      {.name = "normalize u8", .type = type, .fill = {.bound = 256}}, op, {{images, DType::u8}});
  rates.time({.name = "normalize f32", .type = type}, op, {f32(images)});
}

void time_pools(Rates& rates, const Shape& x, DType type) {
  const ops::Pool2dAttrs two{2, 2, 2, 2, 0, 0}, three{3, 3, 2, 2, 1, 1};
  for (const ops::Pool2dAttrs& attrs : {two, three}) {
    const TensorType in{x, type}, out{ops::pool2d_output("pools", attrs, in), type};
    const std::string shape = x.to_string();
    const auto time = [&](const std::string& name, const Operator& op, const auto&... inputs) {
      const auto window = std::uint32_t(attrs.kernel_h * attrs.kernel_w);
      rates.time({.name = fmt::format("{} {}x{}", name, attrs.kernel_h, attrs.kernel_w),
                  .shape = shape,
                  .type = type,
                  .fill = {.bound = window}},
                 op,
                 {inputs...});
    };
    time("max_pool2d", ops::MaxPool2d(attrs), in);
    time("max_pool2d_bwd", ops::MaxPool2dBwd(attrs, x), out, TensorType{out.shape, DType::u8});
    time("avg_pool2d", ops::AvgPool2d(attrs), in);
    time("avg_pool2d_bwd", ops::AvgPool2dBwd(attrs, x), out);
  }
}

void time_global_pool(Rates& rates, const Shape& x, DType type) {
  rates.time({.name = "global_avg_pool", .type = type}, ops::GlobalAvgPool(), {{x, type}});
  rates.time({.name = "global_avg_pool_bwd", .shape = x.to_string(), .type = type},
             ops::GlobalAvgPoolBwd(x),
             {{{x[0], x[3]}, type}});
}

/// One group: the whole micro-batch. All values lie around 2, so that a variance is one.
void time_batch_norm(Rates& rates, const Shape& shape, DType type) {
  const TensorType x{shape, type};
  const std::int64_t channels = shape[3];
  const TensorType c = f32({channels}), moments = f32({1, 1, 3, channels}),
                   saved = f32({1, 2, channels}), affine = f32({1, 4, channels}),
                   sums = f32({1, 1, 2, channels}), one = f32({1});
  const auto time = [&](const std::string& name, const Operator& op, const auto&... inputs) {
    rates.time({.name = "batch_norm_" + name, .type = type, .fill = {.low = 1.5f, .high = 2.5f}},
               op,
               {inputs...});
  };
  constexpr float kEps = 1e-5f;
  time("moments", ops::BatchNormMoments(0), x);
  time("normalize", ops::BatchNormNormalize(0, kEps), x, c, c, moments, c, c, one);
  time("normalize relu", ops::BatchNormNormalize(0, kEps, true), x, c, c, moments, c, c, one);
  time("normalize relu residual",
       ops::BatchNormNormalize(0, kEps, true, true),
       x,
       c,
       c,
       moments,
       c,
       c,
       one,
       x);
  time("bwd_sums", ops::BatchNormBwdSums(0), x, x, saved);
  time("bwd_sums relu", ops::BatchNormBwdSums(0, true), x, x, affine);
  time("residual_bwd_sums", ops::BatchNormResidualBwdSums(0), x, x, saved, x);
  time("residual_bwd_sums two uses", ops::BatchNormResidualBwdSums(0, true), x, x, saved, x, x);
  time("bwd_data", ops::BatchNormBwdData(0), x, x, c, saved, moments, sums);
  time("bwd_data relu", ops::BatchNormBwdData(0, true), x, x, c, affine, moments, sums);
  time("inference relu", ops::BatchNormInference(kEps, true), x, c, c, c, c);
  time("inference relu residual", ops::BatchNormInference(kEps, true, true), x, c, c, c, c, x);
}

/// A table of 40 columns, of which four have 1,000 categories each in vectors of 77 values.
void time_columns(Rates& rates, DType type) {
  const std::int64_t samples = rates.small() ? 64 : 1 << 18;
  const std::int64_t columns = 40, categories = rates.small() ? 30 : 1000, width = 77;
  const TensorType x = f32({samples, columns}), table = f32({categories, width});
  const TensorType dy{{samples, columns - 4 + 4 * width}, type};
  rates.time({.name = "column_embedding", .type = type},
             ops::ColumnEmbedding({0, 9, 20, 39}, type),
             {x, table, table, table, table});
  rates.time({.name = "column_embedding_bwd", .type = type},
             ops::ColumnEmbeddingBwd(9, 8 + width, table.shape),
             {x, dy});
}

}  // namespace

void time_elementwise(Rates& rates) {
  const auto sizes = rates.small() ? std::vector<std::int64_t>{16 << 10}
                                   : std::vector<std::int64_t>{64 << 20, 256 << 20};
  for (DType type : {DType::f32, DType::bf16}) {
    for (std::int64_t bytes : sizes) time_flat_tensors(rates, bytes, type);
    time_normalize(rates, type);
    time_columns(rates, type);
  }
  for (std::int64_t bytes : sizes) {
    const TensorType x = f32({bytes / 4096, 1024});
    const auto time = [&](const char* name, const Operator& op) {
      rates.time({.name = name}, op, {x, x, f32({1})});
    };
    time("mean_squared_error", ops::MeanSquaredError(true));
    time("l1_loss", ops::L1Loss(true));
    time("huber_loss", ops::HuberLoss(1, true));
    time("binary_cross_entropy", ops::BinaryCrossEntropy(true));
    rates.time({.name = "distillation_loss"},
               ops::DistillationLoss({.alpha = 0.5f, .temperature = 3, .hard = false}, true),
               {x, x, f32({1}), f32({1})});
  }
}

/// The outputs of resnet50's stages, in as many samples as make 51 million values.
void time_feature_maps(Rates& rates) {
  const auto maps = rates.small() ? std::vector<Shape>{{2, 8, 8, 16}, {3, 5, 5, 40}}
                                  : std::vector<Shape>{{64, 112, 112, 64},
                                                       {64, 56, 56, 256},
                                                       {128, 28, 28, 512},
                                                       {256, 14, 14, 1024},
                                                       {512, 7, 7, 2048}};
  for (DType type : {DType::f32, DType::bf16}) {
    time_pools(rates, maps.front(), type);
    time_global_pool(rates, maps.back(), type);
    for (const Shape& map : maps) time_batch_norm(rates, map, type);
  }
}

}  // namespace lockstep::rates
