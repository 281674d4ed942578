// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string_view>
#include <utility>

#include "kernels/cpu/bound_kernel.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/matrix_library.h"
#include "kernels/cpu/onednn/dnnl_common.h"
#include "kernels/cpu/onednn/dnnl_versions.h"
#include "kernels/cpu/small_gemm.h"

// Convolutions are oneDNN's, on NHWC activations. Its fast kernels want the weights in blocked
// layouts of their choice: products read packed copies, the weight gradient comes out packed into
// the workspace and is reordered into the flat space. Kernels use scratch memory that we own, so
// that it counts as workspace and run() allocates nothing.
namespace lockstep::cpu {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

/// One convolution as oneDNN describes it: extents in the order N, C, H, W and (G,) O, I, R, S.
struct Problem {
  memory::dims x, w, y, strides, padding;
  memory::desc x_layout, y_layout, bias_layout;
  memory::data_type type;     ///< of activations and of packed weights
  memory::desc plain_weight;  ///< [O, R, S, I] as the flat space holds it
  memory::desc any_weight, any_weight_grad;

  Problem(const ops::Conv2dAttrs& a,
          const Shape& input,
          DType dtype,
          const Shape& weight,
          const Shape& output)
      : x{input[0], input[3], input[1], input[2]},
        y{output[0], output[3], output[1], output[2]},
        strides{a.stride_h, a.stride_w},
        padding{a.padding_h, a.padding_w},
        type(dtype == DType::bf16 ? memory::data_type::bf16 : memory::data_type::f32) {
    const std::int64_t out = weight[0], r = weight[1], s = weight[2], in = weight[3];
    w = {out / a.groups, in, r, s};
    memory::dims weight_strides{r * s * in, 1, s * in, in};
    if (a.groups > 1) {
      w.insert(w.begin(), a.groups);
      weight_strides.insert(weight_strides.begin(), out / a.groups * r * s * in);
    }
    x_layout = {x, type, Tag::nhwc};
    y_layout = {y, type, Tag::nhwc};
    bias_layout = {{out}, memory::data_type::f32, Tag::a};
    plain_weight = {w, memory::data_type::f32, weight_strides};
    any_weight = {w, type, Tag::any};
    any_weight_grad = {w, memory::data_type::f32, Tag::any};
  }

  dnnl_versions::Convolution with(const memory::desc& weight_layout) const {
    return {x_layout, weight_layout, y_layout, strides, padding};
  }
};

dnnl::primitive_attr own_scratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

dnnl::convolution_forward::primitive_desc forward_desc(const Problem& p,
                                                       const memory::desc& weight,
                                                       bool bias) {
  return dnnl_versions::conv_forward(
      dnnl_engine(), p.with(weight), bias ? &p.bias_layout : nullptr, own_scratchpad());
}

/// The weight layout to try before oneDNN's own choice, measured on Zen 4 with oneDNN 2.6.3. Its
/// list starts with the batched-product kernel, which the direct one beats for a single input
/// channel (95 against 63 GFLOP/s), few channels (32 -> 64 at 14 x 14: 124 against 108), 1x1 (86
/// against 73; bf16 196 against 170) and images too small to fill a batch (512 -> 512 at 4 x 4: 148
/// against 88; bf16 332 against 208), and nowhere else.
Tag preferred_layout(const Problem& p) {
  const bool grouped = p.w.size() != 4;
  if (isa() != Isa::avx512 || grouped || p.w[0] % 16 != 0) return Tag::any;
  const std::int64_t out = p.w[0], in = p.w[1];
  const bool is_bf16 = p.type == memory::data_type::bf16;
  if (in == 1) return is_bf16 ? Tag::any : Tag::Ohwi16o;
  const bool pointwise = p.w[2] == 1 && p.w[3] == 1;
  const bool few_channels = in <= 32 && out >= 32;
  const bool small_image = p.x[2] <= 4 && p.x[3] <= 4;
  const bool direct = in % 16 == 0 && (pointwise || few_channels || small_image);
  if (!direct) return Tag::any;
  return is_bf16 ? Tag::OIhw8i16o2i : Tag::OIhw16i16o;
}

/// Whether the implementation is one of the fast ones.
bool is_direct(const dnnl::convolution_forward::primitive_desc& desc) {
  return std::string_view(desc.impl_info_str()).starts_with("jit");
}

dnnl::convolution_forward::primitive_desc choose_forward(const Problem& p, bool bias) {
  const Tag layout = preferred_layout(p);
  if (layout != Tag::any) {
    try {
      auto desc = forward_desc(p, {p.w, p.type, layout}, bias);
      if (is_direct(desc)) return desc;
    } catch (const dnnl::error& error) {
      if (error.status != dnnl_unimplemented) throw;
    }
  }
  return forward_desc(p, p.any_weight, bias);
}

dnnl::reorder reorder(const memory::desc& from, const memory::desc& to, bool accumulate) {
  dnnl::primitive_attr attr;
  if (accumulate) {
    dnnl::post_ops ops;
    ops.append_sum(1.0f);
    attr.set_post_ops(ops);
  }
  const dnnl::engine& engine = dnnl_engine();
  return dnnl::reorder(dnnl::reorder::primitive_desc(engine, from, engine, to, attr));
}

/// Forward or backward-data: a product that reads packed weights.
class PackedConv : public Kernel {
 public:
  std::size_t workspace_bytes() const final { return scratchpad_bytes_; }
  std::vector<PackedCopy> packed_copies() const final { return {packed_copy_}; }
  void pack(int) final { pack_.run(); }
  void run(const RunState&) final { product_.run(); }

 protected:
  template <typename PrimitiveDesc, typename Primitive>
  void create(const std::string& what,
              const Problem& p,
              const PrimitiveDesc& desc,
              const Primitive& primitive) {
    const memory::desc packed = desc.weights_desc();
    packed_copy_ = {1,
                    (p.type == memory::data_type::bf16 ? "bf16." : "") + layout_name(packed),
                    packed.get_size()};
    pack_ = DnnlStep(what, reorder(p.plain_weight, packed, false));
    pack_.add(DNNL_ARG_FROM, p.plain_weight);
    pack_.add(DNNL_ARG_TO, packed);
    product_ = DnnlStep(what, primitive);
    product_.add(DNNL_ARG_WEIGHTS, packed);
    product_.add(DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc());
    scratchpad_bytes_ = desc.scratchpad_desc().get_size();
  }

  void bind_weights(const KernelBuffers& buffers) {
    pack_.bind(DNNL_ARG_FROM, buffers.inputs[1]);
    pack_.bind(DNNL_ARG_TO, buffers.packed[0]);
    product_.bind(DNNL_ARG_WEIGHTS, buffers.packed[0]);
    product_.bind(DNNL_ARG_SCRATCHPAD, buffers.workspace);
  }

  DnnlStep product_;

 private:
  DnnlStep pack_;
  PackedCopy packed_copy_;
  std::size_t scratchpad_bytes_ = 0;
};

class ConvForward final : public PackedConv {
 public:
  ConvForward(const Problem& p, bool bias, const std::string& what) : bias_(bias) {
    const auto desc = choose_forward(p, bias);
    create(what, p, desc, dnnl::convolution_forward(desc));
    product_.add(DNNL_ARG_SRC, p.x_layout);
    product_.add(DNNL_ARG_DST, p.y_layout);
    if (bias) product_.add(DNNL_ARG_BIAS, p.bias_layout);
  }

  void bind(const KernelBuffers& buffers) override {
    bind_weights(buffers);
    product_.bind(DNNL_ARG_SRC, buffers.inputs[0]);
    product_.bind(DNNL_ARG_DST, buffers.outputs[0]);
    if (bias_) product_.bind(DNNL_ARG_BIAS, buffers.inputs[2]);
  }

 private:
  bool bias_;
};

class ConvBwdData final : public PackedConv {
 public:
  ConvBwdData(const Problem& p, const std::string& what) {
    const auto desc = dnnl_versions::conv_backward_data(dnnl_engine(),
                                                        p.with(p.any_weight),
                                                        forward_desc(p, p.any_weight, false),
                                                        own_scratchpad());
    create(what, p, desc, dnnl::convolution_backward_data(desc));
    product_.add(DNNL_ARG_DIFF_DST, p.y_layout);
    product_.add(DNNL_ARG_DIFF_SRC, p.x_layout);
  }

  void bind(const KernelBuffers& buffers) override {
    bind_weights(buffers);
    product_.bind(DNNL_ARG_DIFF_DST, buffers.inputs[0]);
    product_.bind(DNNL_ARG_DIFF_SRC, buffers.outputs[0]);
  }
};

/// The bias gradient is summed by our own loop: in oneDNN, NHWC gradients with a bias take up to
/// twice the time (295 against 129 microseconds for 1 -> 32 channels, 32 images of 28 x 28).
template <typename T>
class ConvBwdWeights final : public Kernel {
 public:
  ConvBwdWeights(const Problem& p, bool bias, const KernelSpec& spec)
      : bias_(bias),
        rows_(p.y[0] * p.y[2] * p.y[3]),
        channels_(p.y[1]),
        accumulates_(spec.output_accumulates) {
    accumulates_.resize(2);
    const std::string what = describe(spec);
    const auto desc = dnnl_versions::conv_backward_weights(dnnl_engine(),
                                                           p.with(p.any_weight_grad),
                                                           forward_desc(p, p.any_weight, false),
                                                           own_scratchpad());
    const memory::desc packed = desc.diff_weights_desc();
    packed_bytes_ = aligned(packed.get_size());
    scratchpad_bytes_ = desc.scratchpad_desc().get_size();
    product_ = DnnlStep(what, dnnl::convolution_backward_weights(desc));
    product_.add(DNNL_ARG_SRC, p.x_layout);
    product_.add(DNNL_ARG_DIFF_DST, p.y_layout);
    product_.add(DNNL_ARG_DIFF_WEIGHTS, packed);
    product_.add(DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc());
    for (bool accumulate : {false, true}) {
      DnnlStep& unpack = accumulate ? unpack_adding_ : unpack_;
      unpack = DnnlStep(what, reorder(packed, p.plain_weight, accumulate));
      unpack.add(DNNL_ARG_FROM, packed);
      unpack.add(DNNL_ARG_TO, p.plain_weight);
    }
  }

  std::size_t workspace_bytes() const override { return packed_bytes_ + scratchpad_bytes_; }

  void bind(const KernelBuffers& buffers) override {
    auto* workspace = static_cast<std::byte*>(buffers.workspace);
    product_.bind(DNNL_ARG_SRC, buffers.inputs[0]);
    product_.bind(DNNL_ARG_DIFF_DST, buffers.inputs[1]);
    product_.bind(DNNL_ARG_DIFF_WEIGHTS, workspace);
    product_.bind(DNNL_ARG_SCRATCHPAD, workspace + packed_bytes_);
    for (DnnlStep* unpack : {&unpack_, &unpack_adding_}) {
      unpack->bind(DNNL_ARG_FROM, workspace);
      unpack->bind(DNNL_ARG_TO, buffers.outputs[0]);
    }
    dy_ = static_cast<const T*>(buffers.inputs[1]);
    if (bias_) db_ = static_cast<float*>(buffers.outputs[1]);
  }

  void run(const RunState& state) override {
    product_.run();
    (state.accumulate && accumulates_[0] ? unpack_adding_ : unpack_).run();
    if (bias_) sums_(db_, dy_, rows_, channels_, state.accumulate && accumulates_[1]);
  }

 private:
  bool bias_;
  std::int64_t rows_, channels_;
  std::vector<bool> accumulates_;
  std::size_t packed_bytes_ = 0, scratchpad_bytes_ = 0;
  DnnlStep product_, unpack_, unpack_adding_;
  const T* dy_ = nullptr;
  float* db_ = nullptr;
  decltype(&baseline::column_sums<T>) sums_ = LOCKSTEP_CHOOSE(column_sums<T>);
};

}  // namespace

std::unique_ptr<Kernel> make_library_conv2d(const ops::Conv2dAttrs& attrs, const KernelSpec& spec) {
  const TensorType &x = spec.inputs[0], &w = spec.inputs[1], &y = spec.outputs[0];
  const std::string what = describe(spec);
  return translate(what, [&]() -> std::unique_ptr<Kernel> {
    const Problem p(attrs, x.shape, x.dtype, w.shape, y.shape);
    return std::make_unique<ConvForward>(p, attrs.bias, what);
  });
}

std::unique_ptr<Kernel> make_library_conv2d_bwd_data(const ops::Conv2dAttrs& attrs,
                                                     const KernelSpec& spec) {
  const TensorType &dy = spec.inputs[0], &w = spec.inputs[1], &dx = spec.outputs[0];
  const std::string what = describe(spec);
  return translate(what, [&]() -> std::unique_ptr<Kernel> {
    const Problem p(attrs, dx.shape, dx.dtype, w.shape, dy.shape);
    return std::make_unique<ConvBwdData>(p, what);
  });
}

std::unique_ptr<Kernel> make_library_conv2d_bwd_weights(const ops::Conv2dAttrs& attrs,
                                                        const KernelSpec& spec) {
  const TensorType &x = spec.inputs[0], &dy = spec.inputs[1], &dw = spec.outputs[0];
  return translate(describe(spec), [&]() -> std::unique_ptr<Kernel> {
    const Problem p(attrs, x.shape, x.dtype, dw.shape, dy.shape);
    return make_stored<ConvBwdWeights>(x.dtype, p, attrs.bias, spec);
  });
}

}  // namespace lockstep::cpu
