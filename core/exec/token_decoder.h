// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/exec/loaded_parameters.h"
#include "lockstep/builder.h"
#include "lockstep/data/dataset.h"
#include "lockstep/precision.h"

namespace lockstep {

/// A causal model of tokens, one token at a time, which keeps the keys and values of those before
/// (a key-value cache): a token costs one row of each GEMM, and attention over what is kept,
///   y = sum_j softmax_j(q . k_j / sqrt(D)) v_j   (j: this token and those before).
///
/// Rows of GEMMs and norms are those of the whole window; attention sums in another order than its
/// kernel, so that logits differ by roundings: a few units in the last place for each layer.
///
/// The program is that of one token. Attention's kernel would see this token alone, and embedding
/// the first position: their results are overwritten in the processor's memory before the next
/// kernel runs. Rotary positions turn nothing at the first one: what they packed is turned before
/// attention. So it is for the CPU backend and fp32.
class TokenDecoder {
 public:
  /// Null where the model cannot be run so: another device, bf16, an operator that looks at several
  /// tokens and is not causal attention. `spec`: tokens [context]. Throws as BatchPredictor.
  static std::unique_ptr<TokenDecoder> make(Backend& backend,
                                            const ModelFunction& model,
                                            const data::SampleSpec& spec,
                                            Precision precision,
                                            const std::string& weights);

  /// The logits of what follows `token`, which is at position size(): [classes], valid until the
  /// next call. There must be place: size() < context.
  std::span<const float> next(std::int32_t token);
  /// Tokens so far.
  std::int64_t size() const { return size_; }

 private:
  struct Layer {
    NodeId node = 0;
    std::int64_t heads = 1, kv_heads = 1, depth = 0;
    float *qkv = nullptr, *y = nullptr;
    std::vector<std::uint64_t> phases;  // of rotary positions; empty: none
    std::vector<float> keys, values;    // [kv_heads depth, context], [context, kv_heads depth]
  };

  TokenDecoder(Backend& backend, Graph graph, std::int64_t context, const std::string& weights);
  void find_nodes();
  void run_until(NodeId end);
  void embed(std::int32_t token);
  void turn(Layer& layer) const;
  void attend(Layer& layer);
  const float* parameter(int node_input) const;

  Backend& backend_;
  std::int64_t context_, size_ = 0;
  FlatSpace space_;
  std::unique_ptr<Program> program_;
  std::unique_ptr<LoadedParameters> parameters_;
  std::vector<Layer> layers_;
  NodeId embedding_ = 0, ran_ = 0;
  float* embedded_ = nullptr;
  std::vector<float> scores_, logits_;
};

}  // namespace lockstep
