// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/libraries/cudnn/attention_graph.h"

#include <array>
#include <span>

// Note [Attention by cuDNN]
//
// cuDNN 9 knows attention in two forms. The older one, in every cuDNN 9, is a graph of GEMMs,
// pointwise operations and reductions whose shape its fused engines recognize (cuDNN's developer
// guide, "Fused Flash Attention"). The newer one is an operation of its own, forward from cuDNN
// 9.13 on and backward from 9.17 on; it masks by a graph of its own alone, from 9.21 on. The older
// form is used, as one description serves all versions, causal or not.
//
//   forward:  s = q k^T scale; p = softmax(s), lse = max s + log sum e^(s - max s); y = p v
//   backward: deltas = sum dy y; p = e^(s - lse); dv = p^T dy;
//             ds = (dy v^T - deltas) p scale; dk = ds^T q; dq = ds k
//
// lse is the natural logarithm, [samples, heads, tokens] f32: what ops::Attention stores, so that
// cuDNN's forward and an own backward go together, and the other way round. dq comes from one GEMM
// of ds, whose sums have an order; as a sum in fp32 to which blocks of keys add it would not.
namespace lockstep::cuda {
namespace {

using Four = std::array<std::int64_t, 4>;

/// Of a tensor, in the order samples, heads, rows, columns.
struct TensorLayout {
  Four extents, strides;

  static TensorLayout packed(const Four& e) {
    return {e, {e[1] * e[2] * e[3], e[2] * e[3], e[3], 1}};
  }
  TensorLayout transposed() const {
    return {{extents[0], extents[1], extents[3], extents[2]},
            {strides[0], strides[1], strides[3], strides[2]}};
  }
};

/// Writes operations one after another; each returns what it stores.
class GraphWriter {
 public:
  explicit GraphWriter(const std::string& what) : what_(what) {}

  CudnnDescriptor stored(std::int64_t id, cudnnDataType_t type, const TensorLayout& layout) const {
    return tensor(id, type, layout, CUDNN_ATTR_TENSOR_UNIQUE_ID);
  }
  /// One f32, which lies in the host's memory.
  CudnnDescriptor by_value(std::int64_t id) const {
    return tensor(
        id, CUDNN_DATA_FLOAT, TensorLayout::packed({1, 1, 1, 1}), CUDNN_ATTR_TENSOR_IS_BY_VALUE);
  }
  CudnnDescriptor between(cudnnDataType_t type, const TensorLayout& layout) {
    return tensor(next_between_++, type, layout, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
  }

  void multiply(const CudnnDescriptor& a, const CudnnDescriptor& b, const CudnnDescriptor& c) {
    CudnnDescriptor product(CUDNN_BACKEND_MATMUL_DESCRIPTOR, what_);
    product.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
    product.finalize();
    CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, what_);
    operation.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    operation.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    operation.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    operation.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, product);
    add(operation);
  }

  /// y = mode of one to three inputs.
  void pointwise(cudnnPointwiseMode_t mode,
                 std::span<const CudnnDescriptor> inputs,
                 const CudnnDescriptor& y,
                 cudnnDataType_t precision = CUDNN_DATA_FLOAT) {
    add_pointwise(describe_mode(mode, precision), inputs, y);
  }
  void pointwise(cudnnPointwiseMode_t mode,
                 const CudnnDescriptor& x,
                 const CudnnDescriptor& b,
                 const CudnnDescriptor& y) {
    pointwise(mode, std::array{x, b}, y);
  }
  void pointwise(cudnnPointwiseMode_t mode, const CudnnDescriptor& x, const CudnnDescriptor& y) {
    pointwise(mode, std::array{x}, y);
  }

  /// y: the index along `axis` of every element of x.
  void index(std::int64_t axis, const CudnnDescriptor& x, const CudnnDescriptor& y) {
    CudnnDescriptor mode = start_mode(CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT);
    mode.set(CUDNN_ATTR_POINTWISE_AXIS, axis);
    mode.finalize();
    add_pointwise(mode, std::array{x}, y);
  }

  /// Along the axes in which y has one element.
  void reduce(cudnnReduceTensorOp_t how, const CudnnDescriptor& x, const CudnnDescriptor& y) {
    CudnnDescriptor reduction(CUDNN_BACKEND_REDUCTION_DESCRIPTOR, what_);
    reduction.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
    reduction.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &how);
    reduction.finalize();
    CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, what_);
    operation.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, reduction);
    operation.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    operation.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    add(operation);
  }

  /// y: the elements of x, seen with other extents and strides.
  void reshape(const CudnnDescriptor& x, const CudnnDescriptor& y) {
    CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, what_);
    operation.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    operation.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    add(operation);
  }

  std::vector<CudnnDescriptor> take() { return std::move(operations_); }

 private:
  CudnnDescriptor tensor(std::int64_t id,
                         cudnnDataType_t type,
                         const TensorLayout& layout,
                         cudnnBackendAttributeName_t kind) const {
    CudnnDescriptor descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, what_);
    descriptor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
    descriptor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type);
    descriptor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, layout.extents);
    descriptor.set(CUDNN_ATTR_TENSOR_STRIDES, layout.strides);
    descriptor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, std::int64_t(16));
    if (kind != CUDNN_ATTR_TENSOR_UNIQUE_ID) descriptor.set(kind, true);
    descriptor.finalize();
    return descriptor;
  }

  CudnnDescriptor start_mode(cudnnPointwiseMode_t mode, cudnnDataType_t precision) const {
    CudnnDescriptor descriptor(CUDNN_BACKEND_POINTWISE_DESCRIPTOR, what_);
    descriptor.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    descriptor.set(CUDNN_ATTR_POINTWISE_MATH_PREC, precision);
    return descriptor;
  }
  CudnnDescriptor describe_mode(cudnnPointwiseMode_t mode, cudnnDataType_t precision) const {
    CudnnDescriptor descriptor = start_mode(mode, precision);
    descriptor.finalize();
    return descriptor;
  }

  void add_pointwise(const CudnnDescriptor& mode,
                     std::span<const CudnnDescriptor> inputs,
                     const CudnnDescriptor& y) {
    constexpr std::array kInputs{CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
                                 CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                                 CUDNN_ATTR_OPERATION_POINTWISE_TDESC};
    CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, what_);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, mode);
    for (std::size_t i = 0; i < inputs.size(); ++i) operation.set(kInputs[i], inputs[i]);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    add(operation);
  }

  void add(CudnnDescriptor& operation) {
    operation.finalize();
    operations_.push_back(operation);
  }

  std::string what_;
  std::int64_t next_between_ = kFirstBetween;
  std::vector<CudnnDescriptor> operations_;
};

/// The tensors that both passes have, and the scores.
class AttentionWriter {
 public:
  AttentionWriter(const FusedAttentionSpec& spec, const AttentionCut& part, const std::string& what)
      : spec_(spec), part_(part), graph_(what) {}

  std::vector<CudnnDescriptor> forward() {
    const CudnnDescriptor scores = hide(scaled_scores());
    const CudnnDescriptor top = rows(), shifted = square(), weights = square(), total = rows(),
                          log_total = rows(), shares = square(CUDNN_DATA_BFLOAT16);
    graph_.reduce(CUDNN_REDUCE_TENSOR_MAX, scores, top);
    graph_.pointwise(CUDNN_POINTWISE_SUB, scores, top, shifted);
    graph_.pointwise(CUDNN_POINTWISE_EXP, shifted, weights);
    graph_.reduce(CUDNN_REDUCE_TENSOR_ADD, weights, total);
    graph_.pointwise(CUDNN_POINTWISE_LOG, total, log_total);
    graph_.pointwise(CUDNN_POINTWISE_ADD, top, log_total, stored_rows(kLse));
    graph_.pointwise(CUDNN_POINTWISE_DIV, weights, total, shares);
    graph_.multiply(shares, packed(kValues), plain(kAttended));
    return graph_.take();
  }

  std::vector<CudnnDescriptor> backward() {
    const CudnnDescriptor dy = plain(kAttendedGradient), deltas = describe_deltas(dy);
    const CudnnDescriptor shifted = square(), weights = square();
    graph_.pointwise(CUDNN_POINTWISE_SUB, scaled_scores(), stored_rows(kLse), shifted);
    graph_.pointwise(CUDNN_POINTWISE_EXP, hide(shifted), weights);
    graph_.multiply(transposed(weights), dy, packed(kValuesGradient));

    const CudnnDescriptor dp = square(), centred = square(), weighted = square(), ds = square();
    graph_.multiply(dy, stored(kValues, packed_layout().transposed()), dp);
    graph_.pointwise(CUDNN_POINTWISE_SUB, dp, deltas, centred);
    graph_.pointwise(CUDNN_POINTWISE_MUL, centred, weights, weighted);
    graph_.pointwise(CUDNN_POINTWISE_MUL, weighted, scale_, ds);
    graph_.multiply(transposed(ds), queries_, packed(kKeysGradient));
    const CudnnDescriptor keys = graph_.between(CUDNN_DATA_FLOAT, packed_layout());
    graph_.reshape(keys_, keys);
    graph_.multiply(ds, keys, packed(kQueriesGradient));
    return graph_.take();
  }

 private:
  /// Of q, k or v among the others, whose rows are `blocks` times as long as those of y.
  TensorLayout layout(std::int64_t blocks) const {
    const std::int64_t row = blocks * spec_.heads * spec_.depth;
    return {{part_.samples, part_.heads, spec_.tokens, spec_.depth},
            {spec_.tokens * row, spec_.depth, row, 1}};
  }
  TensorLayout packed_layout() const { return layout(3); }
  TensorLayout plain_layout() const { return layout(1); }
  TensorLayout square_layout() const {
    return TensorLayout::packed({part_.samples, part_.heads, spec_.tokens, spec_.tokens});
  }
  TensorLayout rows_layout() const {
    return TensorLayout::packed({part_.samples, part_.heads, spec_.tokens, 1});
  }

  CudnnDescriptor stored(std::int64_t id, const TensorLayout& layout) const {
    return graph_.stored(id, CUDNN_DATA_BFLOAT16, layout);
  }
  CudnnDescriptor packed(std::int64_t id) const { return stored(id, packed_layout()); }
  CudnnDescriptor plain(std::int64_t id) const { return stored(id, plain_layout()); }
  CudnnDescriptor stored_rows(std::int64_t id) const {
    TensorLayout layout = rows_layout();
    layout.strides[0] = spec_.heads * spec_.tokens;
    return graph_.stored(id, CUDNN_DATA_FLOAT, layout);
  }
  CudnnDescriptor rows() { return graph_.between(CUDNN_DATA_FLOAT, rows_layout()); }
  CudnnDescriptor square(cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return graph_.between(type, square_layout());
  }

  CudnnDescriptor scaled_scores() {
    const CudnnDescriptor scores = square(), scaled = square();
    graph_.multiply(queries_, keys_, scores);
    graph_.pointwise(CUDNN_POINTWISE_MUL, scores, scale_, scaled);
    return scaled;
  }

  /// Of a causal attention: the scores where the row's index is no less than the column's.
  CudnnDescriptor hide(const CudnnDescriptor& scores) {
    if (!spec_.causal) return scores;
    const CudnnDescriptor query = square(CUDNN_DATA_INT32), key = square(CUDNN_DATA_INT32),
                          seen = square(CUDNN_DATA_BOOLEAN), result = square();
    graph_.index(2, scores, query);
    graph_.index(3, scores, key);
    graph_.pointwise(CUDNN_POINTWISE_CMP_GE, std::array{query, key}, seen, CUDNN_DATA_BOOLEAN);
    graph_.pointwise(CUDNN_POINTWISE_BINARY_SELECT,
                     std::array{scores, graph_.by_value(kHiddenScore), seen},
                     result);
    return result;
  }

  CudnnDescriptor describe_deltas(const CudnnDescriptor& dy) {
    const CudnnDescriptor products =
        graph_.between(CUDNN_DATA_FLOAT, TensorLayout::packed(plain_layout().extents));
    const CudnnDescriptor sums = rows(), deltas = stored_rows(kDeltas);
    graph_.pointwise(CUDNN_POINTWISE_MUL, dy, plain(kAttended), products);
    graph_.reduce(CUDNN_REDUCE_TENSOR_ADD, products, sums);
    graph_.pointwise(CUDNN_POINTWISE_MUL, sums, graph_.by_value(kOne), deltas);
    return deltas;
  }

  /// Rounded to bf16, as a GEMM's factor.
  CudnnDescriptor transposed(const CudnnDescriptor& values) {
    const CudnnDescriptor result =
        graph_.between(CUDNN_DATA_BFLOAT16, square_layout().transposed());
    graph_.reshape(values, result);
    return result;
  }

  FusedAttentionSpec spec_;
  AttentionCut part_;
  GraphWriter graph_;
  CudnnDescriptor queries_ = packed(kQueries);
  CudnnDescriptor keys_ = stored(kKeys, packed_layout().transposed());
  CudnnDescriptor scale_ = graph_.by_value(kScale);
};

}  // namespace

std::vector<CudnnDescriptor> describe_attention(const FusedAttentionSpec& spec,
                                                const AttentionCut& part,
                                                const std::string& what) {
  AttentionWriter writer(spec, part, what);
  return spec.pass == AttentionPass::forward ? writer.forward() : writer.backward();
}

}  // namespace lockstep::cuda
