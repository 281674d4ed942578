// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/gelu_kind.h"
#include "lockstep/ops/rotary_positions.h"
#include "lockstep/value.h"

namespace lockstep {

struct BuilderSettings;
struct FileLayout;
struct Init;
class Operator;
namespace data {
struct EmbeddedColumn;
}

/// Over which samples a batch norm takes its means and variances in training.
struct BatchNormPolicy {
  enum class Kind : std::uint8_t {
    local,  ///< over those of a micro-batch
    sync,   ///< over those of all ranks' micro-batches that are computed at the same time
    group   ///< over `group` consecutive samples, which divide a micro-batch or are several ranks'
  };
  Kind kind = Kind::local;
  std::int64_t group = 0;  ///< group: samples in a group

  /// "local", "sync" or "group:16". Throws ConfigError.
  static BatchNormPolicy parse(const std::string& text);
  std::string to_string() const;
  bool operator==(const BatchNormPolicy&) const = default;
};

enum class Mode : std::uint8_t { training, evaluation };

/// What layers are made of. `name` in these options is the layer's name within its scope ("conv1");
/// where it is empty, the operator's name with a running number is used ("conv2d1"). Parameters are
/// "<layer>.weight".
struct LinearOptions {
  std::int64_t out_features = 0;
  bool bias = true;
  /// Above 0: weights start as normal(0, normal_init), biases as 0, instead of PyTorch's default
  /// uniform(+-1 / sqrt(in)).
  float normal_init = 0.0f;
  /// The file holds W as [in, out] (Hugging Face's Conv1D, which GPT-2 has) instead of [out, in].
  bool transposed_in_file = false;
  /// Full name of a parameter [out_features, in] that is used as W instead of one of its own: the
  /// embedding, for a tied head.
  std::string tied_to = {};
  std::string name = {};
  /// An image [N, H, W, in] is taken as it is, each pixel by itself, instead of being refused.
  bool every_pixel = false;
  /// '_': parameters are "<layer>_weight", as torch.nn.MultiheadAttention's "in_proj_weight".
  char separator = '.';
};
struct EmbeddingOptions {
  std::int64_t vocabulary = 0;     ///< different tokens, those of the data at least
  std::int64_t width = 0;          ///< values of a token's vector
  std::int64_t positions = 0;      ///< rows of the learned position table; 0: none
  float init_deviation = 1.0f;     ///< tables start as normal(0, init_deviation)
  std::string name = {};           ///< the token table is "<name>.weight"
  std::string position_name = {};  ///< the position table is "<position_name>.weight"
};
struct ClassTokenOptions {
  float init_deviation = 0.02f;                 ///< both start as normal(0, init_deviation)
  std::string name = "class_token";             ///< of the parameter [1, 1, C]
  std::string position_name = "pos_embedding";  ///< of the parameter [1, 1 + T, C]
};
/// Values of a category's vector where not set otherwise: min(600, round(1.6 K^0.56)) for K
/// categories. Source: fast.ai's emb_sz_rule (fastai.tabular.model), found by trying tables.
std::int64_t embedding_width(std::int64_t categories);

struct ColumnEmbeddingOptions {
  /// Values of a vector, one for each embedded column; empty: embedding_width() of each.
  std::vector<std::int64_t> widths = {};
  /// As torch.nn.Embedding's: vectors start with values as large as those of standardised numbers,
  /// and the first layer sees both alike. From much smaller ones (0.01) SGD hardly gets away, since
  /// vectors and the weights that multiply them have gradients as small as each other: of 1,000
  /// categories in 600 steps at a rate of 0.05 it learned a tenth of the variance, from 1 nine
  /// tenths. AdamW learned it from either.
  float init_deviation = 1.0f;
  std::string name = "embeddings";  ///< the tables are "<name>.0.weight", "<name>.1.weight", ...
};
struct LayerNormOptions {
  float eps = 1e-5f;  ///< is added to the variance
  bool bias = true;
  std::string name = {};
};
struct RmsNormOptions {
  float eps = 1e-6f;  ///< is added to the mean of the squares
  std::string name = {};
};
struct RotaryOptions {
  int heads = 1;     ///< of q
  int kv_heads = 0;  ///< of k and v, divides heads; 0: as many as heads
  ops::RotaryPositions positions = {};
};
struct AttentionOptions {
  int heads = 1;         ///< divides C
  int kv_heads = 0;      ///< of keys and values, divides heads; 0: as many as heads
  bool causal = true;    ///< a token sees itself and those before it
  float dropout = 0.0f;  ///< of the attention weights, in training
};
struct Conv2dOptions {
  std::int64_t out_channels = 0;
  int kernel = 3;
  int stride = 1;
  int padding = 0;  ///< zeros on each side
  int groups = 1;   ///< divides the input's channels and out_channels
  bool bias = true;
  /// Weights start as normal(0, sqrt(2 / (kernel^2 out_channels))) (He et al. 2015, fan out) and
  /// biases as 0, instead of PyTorch's default uniform(+-1 / sqrt(fan_in)).
  bool he_normal_init = false;
  /// Above 0: weights start as normal(0, normal_init), biases as 0.
  float normal_init = 0.0f;
  /// The first filters, as many as there are channels in, start as the identity of a channel each,
  /// the others as PyTorch's default. Without groups.
  bool dirac_init = false;
  /// The weights are whitening filters of the training images, which Trainer::fit() and
  /// Replica::initialise_from() compute, and are not trained; biases start as 0. Of the model's
  /// input itself, with out_channels = 2 kernel^2 channels. One of the four that say how weights
  /// start can hold.
  bool whitening = false;
  std::string name = {};
};
struct BatchNormOptions {
  float eps = 1e-5f;          ///< is added to the variance
  float momentum = 0.1f;      ///< share of the new statistics in the running ones
  float init_weight = 1.0f;   ///< that the scale of each channel starts with
  bool trains_weight = true;  ///< false: the scales stay as they start
  std::string name = {};
};
struct Pool2dOptions {
  int kernel = 2;
  int stride = 0;  ///< 0: the kernel
  int padding = 0;
};

/// What a model is written with: a model is a function that is handed a Builder and the input, and
/// returns its prediction.
///
///   auto model = [](lockstep::Builder& nn, lockstep::Value x) {  // x: [N, 28, 28, 1]
///     x = nn.max_pool2d(nn.relu(nn.conv2d(x, {.out_channels = 32, .padding = 1})));
///     return nn.linear(nn.flatten(x), {.out_features = 10});
///   };
///
/// Each function appends a layer and returns its output; nothing is computed yet. The model is
/// called several times, for training, evaluation and each size of micro-batch, and has to build
/// the same layers. Images are [N, H, W, C]. All functions throw ShapeError or ConfigError that
/// name the layer and what is wrong with it, mostly with the line of the call.
class Builder {
 public:
  /// Lockstep makes the Builder, and hands it to the model.
  Builder(Graph& graph, const BuilderSettings& settings);
  ~Builder();
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  /// Whether the model is built for training or for evaluation.
  Mode mode() const;
  /// Features of the data that hold the index of a category: see column_embedding().
  const std::vector<data::EmbeddedColumn>& embedded_columns() const;

  /// y = x W^T + b; x: [N, ..., in] -> [N, ..., out_features]. After flatten() of an image, W's
  /// file layout is PyTorch's, whose flatten walks channels first.
  Value linear(Value x, const LinearOptions& options, SourceLoc where = SourceLoc::current());
  /// tokens: [N, T] i32 -> [N, T, width]; learned positions are added where there are any.
  Value embedding(Value tokens,
                  const EmbeddingOptions& options,
                  SourceLoc where = SourceLoc::current());
  /// x: [N, T, C], or an image [N, H, W, C] with T = H W -> [N, 1 + T, C]: a learned token before
  /// the others, and learned positions added to all. What a vision transformer begins with.
  Value class_token(Value x,
                    const ClassTokenOptions& options = {},
                    SourceLoc where = SourceLoc::current());
  /// x: [N, T, C] -> [N, length, C], the tokens from `start` on.
  Value narrow(Value x,
               std::int64_t start,
               std::int64_t length,
               SourceLoc where = SourceLoc::current());
  /// The model's input [N, F] with a learned vector in place of each feature that the data say is
  /// the index of a category (SampleSpec::embedded), in the order of the features
  /// -> [N, F - E + sum of widths], E being how many those are; x itself where there are none. What
  /// a model of tables begins with. Tables [K, D] are those of a torch.nn.ModuleList of Embedding.
  Value column_embedding(Value x,
                         const ColumnEmbeddingOptions& options = {},
                         SourceLoc where = SourceLoc::current());
  /// x: [N, ..., C], normalised over C.
  Value layer_norm(Value x,
                   const LayerNormOptions& options = {},
                   SourceLoc where = SourceLoc::current());
  /// Any shape, as scale(), relu() and dropout().
  Value gelu(Value x,
             ops::GeluKind kind = ops::GeluKind::erf,
             SourceLoc where = SourceLoc::current());
  /// x: [N, ..., C], over the root of the mean of the squares over C, times learned weights.
  Value rms_norm(Value x,
                 const RmsNormOptions& options = {},
                 SourceLoc where = SourceLoc::current());
  /// silu(gate) * up, of equal shapes: what gates a SwiGLU layer.
  Value swiglu(Value gate, Value up, SourceLoc where = SourceLoc::current());
  /// q: [N, T, heads D], k and v: [N, T, kv_heads D] -> [N, T, (heads + 2 kv_heads) D], for
  /// attention(): queries and keys turned by their positions, values as they are.
  Value rotary(Value q,
               Value k,
               Value v,
               const RotaryOptions& options,
               SourceLoc where = SourceLoc::current());
  /// qkv: [N, T, 3 C], queries, keys and values side by side -> [N, T, C]; with fewer heads of keys
  /// and values, which groups of heads share, their blocks are as much narrower.
  Value attention(Value qkv,
                  const AttentionOptions& options,
                  SourceLoc where = SourceLoc::current());
  Value scale(Value x, float factor, SourceLoc where = SourceLoc::current());
  /// x: [N, ..., C] times a learned factor for each channel, which starts as `initial`. The
  /// parameter `name` is [C, 1, 1] in files, as ConvNeXt's.
  Value channel_scale(Value x,
                      float initial,
                      const std::string& name,
                      SourceLoc where = SourceLoc::current());
  /// x: [N, H, W, C] -> [N, P, Q, out_channels]
  Value conv2d(Value x, const Conv2dOptions& options, SourceLoc where = SourceLoc::current());
  /// x: [N, C] or [N, H, W, C]; per-batch statistics in training, running ones in evaluation.
  Value batch_norm(Value x,
                   const BatchNormOptions& options = {},
                   SourceLoc where = SourceLoc::current());
  Value relu(Value x, SourceLoc where = SourceLoc::current());
  /// min(relu(x), 6)
  Value relu6(Value x, SourceLoc where = SourceLoc::current());
  /// a + b, of equal shapes: a residual connection.
  Value add(Value a, Value b, SourceLoc where = SourceLoc::current());
  /// x: [N, H, W, C] -> [N, P, Q, C]
  Value max_pool2d(Value x,
                   const Pool2dOptions& options = {},
                   SourceLoc where = SourceLoc::current());
  Value avg_pool2d(Value x,
                   const Pool2dOptions& options = {},
                   SourceLoc where = SourceLoc::current());
  /// [N, H, W, C] -> [N, C]
  Value global_avg_pool(Value x, SourceLoc where = SourceLoc::current());
  /// [N, ...] -> [N, product]
  Value flatten(Value x, SourceLoc where = SourceLoc::current());
  /// The identity in evaluation and where rate is 0.
  Value dropout(Value x, float rate, SourceLoc where = SourceLoc::current());
  /// All of a sample or nothing of it, so that a residual block is skipped: stochastic depth (Huang
  /// et al. 2016), torchvision's mode "row". The identity in evaluation and where rate is 0.
  Value stochastic_depth(Value x, float rate, SourceLoc where = SourceLoc::current());
  /// x * scale[c] + shift[c] as f32; x: u8 or f32.
  Value normalize(Value x,
                  std::vector<float> scale,
                  std::vector<float> shift,
                  SourceLoc where = SourceLoc::current());

  /// Losses: the mean over the samples of the global batch, or over its labels that are not
  /// `ignore_index`. The value returned is this micro-batch's part of that mean; parts add up.
  /// - softmax_cross_entropy: logits [N, K] or [N, T, K], labels [N] or [N, T] i32; of logits
  ///   [N, K] also soft labels [N, 2, 2] f32, two classes with their weights, which training has
  ///   where Augmentation mixes images.
  /// - mean_squared_error, l1_loss, huber_loss: prediction and target [N, D].
  /// - binary_cross_entropy_with_logits: logits and target [N, L] f32, one label a column, targets
  ///   in [0, 1].
  /// `class_weights` [K] multiply the loss of each sample by the weight of its class, and leave the
  /// mean one over samples: PyTorch's weight= divides by the batch's sum of weights instead.
  /// Accuracy is the share of right answers of the first, of right labels of the last, and negative
  /// for the others.
  Value softmax_cross_entropy(Value logits,
                              Value labels,
                              float label_smoothing = 0.0f,
                              std::optional<std::int32_t> ignore_index = {},
                              const std::vector<float>& class_weights = {},
                              SourceLoc where = SourceLoc::current());
  Value mean_squared_error(Value prediction, Value target, SourceLoc where = SourceLoc::current());
  Value l1_loss(Value prediction, Value target, SourceLoc where = SourceLoc::current());
  Value huber_loss(Value prediction,
                   Value target,
                   float delta = 1.0f,
                   SourceLoc where = SourceLoc::current());
  Value binary_cross_entropy_with_logits(Value logits,
                                         Value target,
                                         SourceLoc where = SourceLoc::current());

  /// Layers that are built until scope()'s result dies have "name." before their names.
  class Scope {
   public:
    Scope(Builder& builder, std::string previous)
        : builder_(builder), previous_(std::move(previous)) {}
    ~Scope() { builder_.prefix_ = std::move(previous_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Builder& builder_;
    std::string previous_;
  };
  [[nodiscard]] Scope scope(const std::string& name);

 private:
  /// The graph's f32 [1] input that holds one over the samples of the global batch.
  Value sample_weight();
  std::string layer_path(const std::string& name, const char* op);
  Value apply(std::shared_ptr<const Operator> op,
              std::vector<ValueId> inputs,
              const std::string& path,
              SourceLoc where);
  /// `to` has the elements of `from` in the same places: after a flattened image, it is one too.
  Value keep_layout(Value from, Value to);
  /// What trace() gives a model.
  ValueId model_input() const;
  Value weight(const std::string& name,
               const Shape& shape,
               const Init& init,
               const FileLayout& file_layout);
  Value linear_weight(Value x, const LinearOptions& options, const std::string& path, Init init);
  Value norm_or_bias(const std::string& name, const Shape& shape, const Init& init);
  int running_statistic(const std::string& name, std::int64_t channels, float init, float momentum);
  int metric(const std::string& name);
  /// Of the loss of the labels, whose share is what the teacher leaves.
  std::vector<float> weights_beside_teacher(Value logits,
                                            std::optional<std::int32_t> ignore_index,
                                            std::vector<float> class_weights) const;
  ValueId add_distillation(Value logits, ValueId base, SourceLoc where);
  Value regression_loss(std::shared_ptr<const Operator> op,
                        Value prediction,
                        Value target,
                        SourceLoc where);
  Value batch_norm_training(Value x,
                            const BatchNormOptions& options,
                            const std::string& path,
                            Value gamma,
                            Value beta,
                            int mean,
                            int variance,
                            SourceLoc where);

  Graph& graph_;
  std::unique_ptr<const BuilderSettings> settings_;
  std::string prefix_;
  std::map<std::string, int> counters_;
  ValueId sample_weight_ = kNoValue;
  std::map<ValueId, Shape> flattened_images_;  ///< output of flatten and what follows -> [H, W, C]
};

/// A model: x is the input [N, ...], scaled and shifted as SampleSpec says, the result its
/// prediction. nn::make_model() has ready ones.
using ModelFunction = std::function<Value(Builder&, Value)>;
/// A loss over prediction and target, one of Builder's.
using LossFunction = std::function<Value(Builder&, Value prediction, Value target)>;

/// The usual losses with their defaults, to hand to a Trainer or Replica.
Value softmax_cross_entropy(Builder& nn, Value logits, Value labels);
Value mean_squared_error(Builder& nn, Value prediction, Value target);
Value l1_loss(Builder& nn, Value prediction, Value target);
/// With delta 1.
Value huber_loss(Builder& nn, Value prediction, Value target);
Value binary_cross_entropy_with_logits(Builder& nn, Value logits, Value target);

}  // namespace lockstep
