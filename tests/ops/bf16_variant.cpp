// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/bf16_variant.h"

#include <bit>
#include <cmath>

#include "core/ops/embedding/column_embedding.h"
#include "core/ops/embedding/embedding.h"
#include "core/ops/linear.h"
#include "core/ops/normalize.h"
#include "core/ops/norms/batch_norm.h"
#include "core/ops/norms/layer_norm.h"
#include "core/ops/norms/rms_norm.h"

namespace lockstep::test {
namespace {

/// Inputs that are activations or their gradients.
std::vector<int> activations(const Operator& op) {
  switch (op.kind()) {
    case OpKind::linear:
    case OpKind::conv2d:
    case OpKind::conv2d_bwd_data:
    case OpKind::batch_norm_moments:
    case OpKind::batch_norm_normalize:
    case OpKind::batch_norm_inference:
    case OpKind::relu:
    case OpKind::max_pool2d:
    case OpKind::max_pool2d_bwd:
    case OpKind::avg_pool2d:
    case OpKind::avg_pool2d_bwd:
    case OpKind::global_avg_pool:
    case OpKind::global_avg_pool_bwd:
    case OpKind::dropout:
    case OpKind::embedding_bwd_positions:
    case OpKind::class_token:
    case OpKind::narrow:
    case OpKind::narrow_bwd:
    case OpKind::gelu:
    case OpKind::attention:
    case OpKind::rotary_bwd:
    case OpKind::scale:
    case OpKind::channel_scale:
    case OpKind::softmax_cross_entropy:
      return {0};
    case OpKind::linear_bwd_weights:
    case OpKind::conv2d_bwd_weights:
    case OpKind::batch_norm_bwd_sums:
    case OpKind::batch_norm_bwd_data:
    case OpKind::relu_bwd:
    case OpKind::add:
    case OpKind::gelu_bwd:
    case OpKind::swiglu:
    case OpKind::channel_scale_bwd:
      return {0, 1};
    case OpKind::batch_norm_residual_bwd_sums:
      return op_cast<ops::BatchNormResidualBwdSums>(op).two_uses() ? std::vector<int>{0, 1, 3, 4}
                                                                   : std::vector<int>{0, 1, 3};
    case OpKind::linear_bwd_data:
      return op_cast<ops::LinearBwdData>(op).before() == ops::Activation::none
                 ? std::vector<int>{0}
                 : std::vector<int>{0, 2};
    case OpKind::attention_bwd:
    case OpKind::rotary:
    case OpKind::swiglu_bwd:
      return {0, 1, 2};
    case OpKind::embedding_bwd_tokens:
    case OpKind::column_embedding_bwd:
      return {1};
    case OpKind::layer_norm: {
      const auto& norm = op_cast<ops::LayerNorm>(op);
      return norm.residual() ? std::vector<int>{0, norm.bias() ? 3 : 2} : std::vector<int>{0};
    }
    case OpKind::layer_norm_bwd:
      return op_cast<ops::LayerNormBwd>(op).residual() ? std::vector<int>{0, 1, 4}
                                                       : std::vector<int>{0, 1};
    case OpKind::rms_norm:
      return op_cast<ops::RmsNorm>(op).residual() ? std::vector<int>{0, 2} : std::vector<int>{0};
    case OpKind::rms_norm_bwd:
      return op_cast<ops::RmsNormBwd>(op).residual() ? std::vector<int>{0, 1, 4}
                                                     : std::vector<int>{0, 1};
    default:
      return {};
  }
}

/// Parameters that kernels may read from bf16 copies.
std::vector<std::size_t> packed_parameters(const Operator& op) {
  switch (op.kind()) {
    case OpKind::linear:
      return op_cast<ops::Linear>(op).bias() ? std::vector<std::size_t>{1, 2}
                                             : std::vector<std::size_t>{1};
    case OpKind::linear_bwd_data:
    case OpKind::conv2d:
    case OpKind::conv2d_bwd_data:
      return {1};
    default:
      return {};
  }
}

/// Where bf16 comes from an attribute; null elsewhere.
std::shared_ptr<const Operator> with_bf16_output(const Operator& op) {
  if (op.kind() == OpKind::normalize) {
    const auto& normalize = op_cast<ops::Normalize>(op);
    return std::make_shared<ops::Normalize>(normalize.scale(), normalize.shift(), DType::bf16);
  }
  if (op.kind() == OpKind::embedding)
    return std::make_shared<ops::Embedding>(op_cast<ops::Embedding>(op).positions(), DType::bf16);
  if (op.kind() == OpKind::column_embedding)
    return std::make_shared<ops::ColumnEmbedding>(op_cast<ops::ColumnEmbedding>(op).features(),
                                                  DType::bf16);
  return nullptr;
}

std::uint16_t rounded(float value) {
  if (std::isnan(value)) return 0x7fc0;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t low = bits & 0xffffu, high = bits >> 16;
  const bool up = low > 0x8000u || (low == 0x8000u && high % 2 == 1);
  return std::uint16_t(high + (up ? 1 : 0));
}

}  // namespace

HostTensor rounded_to_bf16(const HostTensor& tensor) {
  HostTensor result{{tensor.type.shape, DType::bf16}, {}};
  result.bytes.resize(result.type.bytes());
  for (std::int64_t i = 0; i < tensor.type.elems(); ++i)
    result.as<std::uint16_t>()[i] = rounded(tensor.as<float>()[i]);
  return result;
}

std::optional<OpCase> bf16_variant(const OpCase& test_case) {
  OpCase variant = test_case;
  variant.name += ", bf16";
  if (auto op = with_bf16_output(*test_case.op)) {
    variant.op = std::move(op);
    return variant;
  }
  const std::vector<int> inputs = activations(*test_case.op);
  if (inputs.empty()) return {};
  for (int i : inputs) {
    HostTensor& input = variant.inputs[std::size_t(i)];
    if (input.type.dtype != DType::f32) return {};
    input = rounded_to_bf16(input);
  }
  for (const std::size_t parameter : packed_parameters(*test_case.op)) {
    HostTensor& values = variant.inputs[parameter];
    const std::vector<double> exact = rounded_to_bf16(values).to_double();
    for (std::size_t i = 0; i < exact.size(); ++i) values.as<float>()[i] = float(exact[i]);
  }
  return variant;
}

}  // namespace lockstep::test
