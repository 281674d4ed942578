// SPDX-License-Identifier: Apache-2.0
#include "tests/libraries/fake_cudnn/fake_graph.h"

#include <array>
#include <bit>
#include <cmath>
#include <stdexcept>

namespace lockstep::cuda {
namespace {

using Four = std::array<std::int64_t, 4>;

float rounded_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return std::bit_cast<float>((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u);
}

Four four(const std::vector<std::int64_t>& values) {
  return {values.at(0), values.at(1), values.at(2), values.at(3)};
}

template <typename Visit>
void for_each_index(const Four& extents, Visit visit) {
  Four at{};
  for (at[0] = 0; at[0] < extents[0]; ++at[0])
    for (at[1] = 0; at[1] < extents[1]; ++at[1])
      for (at[2] = 0; at[2] < extents[2]; ++at[2])
        for (at[3] = 0; at[3] < extents[3]; ++at[3]) visit(at);
}

/// Tensors between operations, by their descriptors.
using Between = std::map<const FakeDescriptor*, std::vector<float>>;

class Tensor {
 public:
  Tensor(const FakeDescriptor* descriptor,
         const std::map<std::int64_t, void*>& places,
         Between& between)
      : extents(four(descriptor->list<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS))),
        strides(four(descriptor->list<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES))),
        type_(descriptor->one<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE)) {
    if (descriptor->has(CUDNN_ATTR_TENSOR_IS_VIRTUAL)) {
      std::int64_t elems = 1;
      for (std::size_t d = 0; d < 4; ++d) elems += (extents[d] - 1) * strides[d];
      between_ = &between[descriptor];
      between_->resize(std::size_t(elems));
    } else {
      place_ = places.at(descriptor->one<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID));
    }
  }

  /// The element at `offset` of its memory.
  float at(std::int64_t offset) const {
    if (between_ != nullptr) return between_->at(std::size_t(offset));
    if (type_ == CUDNN_DATA_FLOAT) return static_cast<const float*>(place_)[offset];
    if (type_ != CUDNN_DATA_BFLOAT16) throw std::out_of_range("a stored tensor of another type");
    return std::bit_cast<float>(std::uint32_t(static_cast<const std::uint16_t*>(place_)[offset])
                                << 16);
  }
  /// With an extent of one for all indices.
  float at(const Four& index) const {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < 4; ++d)
      if (extents[d] > 1) offset += index[d] * strides[d];
    return at(offset);
  }
  void set(const Four& index, float value) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < 4; ++d) offset += index[d] * strides[d];
    const bool bf16 = type_ == CUDNN_DATA_BFLOAT16;
    if (bf16) value = rounded_to_bf16(value);
    if (between_ != nullptr)
      between_->at(std::size_t(offset)) = value;
    else if (bf16)
      static_cast<std::uint16_t*>(place_)[offset] =
          std::uint16_t(std::bit_cast<std::uint32_t>(value) >> 16);
    else
      static_cast<float*>(place_)[offset] = value;
  }

  Four extents, strides;

 private:
  cudnnDataType_t type_;
  std::vector<float>* between_ = nullptr;
  void* place_ = nullptr;
};

/// One operation, whose tensors are found by their attributes.
struct Operation {
  const FakeDescriptor& descriptor;
  const std::map<std::int64_t, void*>& places;
  Between& between;

  bool has(cudnnBackendAttributeName_t name) const { return descriptor.has(name); }
  Tensor tensor(cudnnBackendAttributeName_t name) const {
    return {descriptor.part(name), places, between};
  }
};

void multiply(const Operation& operation) {
  const Tensor a = operation.tensor(CUDNN_ATTR_OPERATION_MATMUL_ADESC),
               b = operation.tensor(CUDNN_ATTR_OPERATION_MATMUL_BDESC);
  Tensor c = operation.tensor(CUDNN_ATTR_OPERATION_MATMUL_CDESC);
  if (a.extents[3] != b.extents[2] || a.extents[2] != c.extents[2] || b.extents[3] != c.extents[3])
    throw std::out_of_range("extents of a GEMM");
  for_each_index(c.extents, [&](const Four& i) {
    float sum = 0;
    for (std::int64_t k = 0; k < a.extents[3]; ++k)
      sum += a.at(Four{i[0], i[1], i[2], k}) * b.at(Four{i[0], i[1], k, i[3]});
    c.set(i, sum);
  });
}

float pointwise_value(cudnnPointwiseMode_t mode, float x, float b, float t) {
  switch (mode) {
    case CUDNN_POINTWISE_ADD:
      return x + b;
    case CUDNN_POINTWISE_SUB:
      return x - b;
    case CUDNN_POINTWISE_MUL:
      return x * b;
    case CUDNN_POINTWISE_DIV:
      return x / b;
    case CUDNN_POINTWISE_EXP:
      return std::exp(x);
    case CUDNN_POINTWISE_LOG:
      return std::log(x);
    case CUDNN_POINTWISE_CMP_GE:
      return x >= b ? 1.0f : 0.0f;
    case CUDNN_POINTWISE_BINARY_SELECT:
      return t != 0 ? x : b;
    default:
      throw std::out_of_range("a pointwise mode");
  }
}

void pointwise(const Operation& operation) {
  const FakeDescriptor& how =
      *operation.descriptor.part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  const auto mode = how.one<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
  const Tensor x = operation.tensor(CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
  Tensor y = operation.tensor(CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
  if (mode == CUDNN_POINTWISE_GEN_INDEX) {
    const auto axis = std::size_t(how.one<std::int64_t>(CUDNN_ATTR_POINTWISE_AXIS));
    return for_each_index(y.extents, [&](const Four& i) { y.set(i, float(i.at(axis))); });
  }
  const auto value_of = [&](cudnnBackendAttributeName_t name, const Four& i) {
    return operation.has(name) ? operation.tensor(name).at(i) : 0.0f;
  };
  for_each_index(y.extents, [&](const Four& i) {
    y.set(i,
          pointwise_value(mode,
                          x.at(i),
                          value_of(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, i),
                          value_of(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, i)));
  });
}

void reduce(const Operation& operation) {
  const auto how = operation.descriptor.part(CUDNN_ATTR_OPERATION_REDUCTION_DESC)
                       ->one<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR);
  const Tensor x = operation.tensor(CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
  Tensor y = operation.tensor(CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
  if (y.extents[3] != 1) throw std::out_of_range("a reduction along another axis");
  for_each_index(y.extents, [&](const Four& i) {
    float result = how == CUDNN_REDUCE_TENSOR_MAX ? -INFINITY : 0;
    for (std::int64_t k = 0; k < x.extents[3]; ++k) {
      const float value = x.at(Four{i[0], i[1], i[2], k});
      result = how == CUDNN_REDUCE_TENSOR_MAX ? std::fmax(result, value) : result + value;
    }
    y.set(i, result);
  });
}

void reshape(const Operation& operation) {
  const Tensor x = operation.tensor(CUDNN_ATTR_OPERATION_RESHAPE_XDESC);
  Tensor y = operation.tensor(CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
  for_each_index(y.extents, [&](const Four& i) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < 4; ++d) offset += i[d] * y.strides[d];
    y.set(i, x.at(offset));
  });
}

}  // namespace

void execute_fake_graph(const FakeDescriptor& graph, const std::map<std::int64_t, void*>& places) {
  Between between;
  for (void* const listed : graph.list<void*>(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
    const Operation operation{*static_cast<const FakeDescriptor*>(listed), places, between};
    switch (operation.descriptor.type) {
      case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
        multiply(operation);
        break;
      case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
        pointwise(operation);
        break;
      case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
        reduce(operation);
        break;
      case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
        reshape(operation);
        break;
      default:
        throw std::out_of_range("an operation");
    }
  }
}

}  // namespace lockstep::cuda
