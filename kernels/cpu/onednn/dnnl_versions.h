// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

/// What oneDNN 2 and oneDNN 3 write differently, and nothing else: only this header asks which of
/// them it is compiled with. oneDNN 2 describes an operation first and makes a primitive descriptor
/// of that; oneDNN 3 makes the primitive descriptor at once, and hides what a memory descriptor
/// holds. All functions throw dnnl::error.
namespace lockstep::dnnl_versions {

/// The layouts of a convolution's tensors (or of their gradients), and where its windows stand.
struct Convolution {
  const dnnl::memory::desc &x, &weight, &y;
  const dnnl::memory::dims &strides, &padding;
};

#if DNNL_VERSION_MAJOR >= 3

inline dnnl::memory::dims dims_of(const dnnl::memory::desc& layout) { return layout.get_dims(); }
inline dnnl::memory::data_type type_of(const dnnl::memory::desc& layout) {
  return layout.get_data_type();
}

/// y = conv(x, weight), plus a bias where `bias` is not null. As of a training, which also serves
/// as the hint of the two below.
inline dnnl::convolution_forward::primitive_desc conv_forward(const dnnl::engine& engine,
                                                              const Convolution& c,
                                                              const dnnl::memory::desc* bias,
                                                              const dnnl::primitive_attr& attr) {
  const auto kind = dnnl::prop_kind::forward_training;
  const auto direct = dnnl::algorithm::convolution_direct;
  using Desc = dnnl::convolution_forward::primitive_desc;
  if (bias != nullptr)
    return Desc(
        engine, kind, direct, c.x, c.weight, *bias, c.y, c.strides, c.padding, c.padding, attr);
  return Desc(engine, kind, direct, c.x, c.weight, c.y, c.strides, c.padding, c.padding, attr);
}

inline dnnl::convolution_backward_data::primitive_desc conv_backward_data(
    const dnnl::engine& engine,
    const Convolution& c,
    const dnnl::convolution_forward::primitive_desc& hint,
    const dnnl::primitive_attr& attr) {
  const auto direct = dnnl::algorithm::convolution_direct;
  return {engine, direct, c.x, c.weight, c.y, c.strides, c.padding, c.padding, hint, attr};
}

inline dnnl::convolution_backward_weights::primitive_desc conv_backward_weights(
    const dnnl::engine& engine,
    const Convolution& c,
    const dnnl::convolution_forward::primitive_desc& hint,
    const dnnl::primitive_attr& attr) {
  const auto direct = dnnl::algorithm::convolution_direct;
  return {engine, direct, c.x, c.weight, c.y, c.strides, c.padding, c.padding, hint, attr};
}

/// c = a b, plus a bias where `bias` is not null.
inline dnnl::matmul::primitive_desc matmul(const dnnl::engine& engine,
                                           const dnnl::memory::desc& a,
                                           const dnnl::memory::desc& b,
                                           const dnnl::memory::desc* bias,
                                           const dnnl::memory::desc& c,
                                           const dnnl::primitive_attr& attr) {
  if (bias != nullptr) return {engine, a, b, *bias, c, attr};
  return {engine, a, b, c, attr};
}

#else

inline dnnl::memory::dims dims_of(const dnnl::memory::desc& layout) { return layout.dims(); }
inline dnnl::memory::data_type type_of(const dnnl::memory::desc& layout) {
  return layout.data_type();
}

inline dnnl::convolution_forward::primitive_desc conv_forward(const dnnl::engine& engine,
                                                              const Convolution& c,
                                                              const dnnl::memory::desc* bias,
                                                              const dnnl::primitive_attr& attr) {
  const auto kind = dnnl::prop_kind::forward_training;
  const auto direct = dnnl::algorithm::convolution_direct;
  using Desc = dnnl::convolution_forward::desc;
  if (bias != nullptr)
    return {Desc(kind, direct, c.x, c.weight, *bias, c.y, c.strides, c.padding, c.padding),
            attr,
            engine};
  return {Desc(kind, direct, c.x, c.weight, c.y, c.strides, c.padding, c.padding), attr, engine};
}

inline dnnl::convolution_backward_data::primitive_desc conv_backward_data(
    const dnnl::engine& engine,
    const Convolution& c,
    const dnnl::convolution_forward::primitive_desc& hint,
    const dnnl::primitive_attr& attr) {
  const auto direct = dnnl::algorithm::convolution_direct;
  return {{direct, c.x, c.weight, c.y, c.strides, c.padding, c.padding}, attr, engine, hint};
}

inline dnnl::convolution_backward_weights::primitive_desc conv_backward_weights(
    const dnnl::engine& engine,
    const Convolution& c,
    const dnnl::convolution_forward::primitive_desc& hint,
    const dnnl::primitive_attr& attr) {
  const auto direct = dnnl::algorithm::convolution_direct;
  return {{direct, c.x, c.weight, c.y, c.strides, c.padding, c.padding}, attr, engine, hint};
}

inline dnnl::matmul::primitive_desc matmul(const dnnl::engine& engine,
                                           const dnnl::memory::desc& a,
                                           const dnnl::memory::desc& b,
                                           const dnnl::memory::desc* bias,
                                           const dnnl::memory::desc& c,
                                           const dnnl::primitive_attr& attr) {
  using Desc = dnnl::matmul::desc;
  return {bias != nullptr ? Desc(a, b, *bias, c) : Desc(a, b, c), attr, engine};
}

#endif

}  // namespace lockstep::dnnl_versions
