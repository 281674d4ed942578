// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/onednn/linear_bf16.h"

#include "kernels/cpu/onednn/dnnl_common.h"
#include "kernels/cpu/onednn/dnnl_versions.h"
#include "kernels/cpu/small_gemm.h"

namespace lockstep::cpu {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;
constexpr auto kF32 = memory::data_type::f32, kBf16 = memory::data_type::bf16;

/// C = A B or, with `accumulate`, C += A B; A and B bf16.
dnnl::matmul::primitive_desc product(const memory::desc& a,
                                     const memory::desc& b,
                                     const memory::desc* bias,
                                     const memory::desc& c,
                                     bool accumulate) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (accumulate) {
    dnnl::post_ops ops;
    ops.append_sum(1.0f);
    attr.set_post_ops(ops);
  }
  return dnnl_versions::matmul(dnnl_engine(), a, b, bias, c, attr);
}

memory::desc row_major(std::int64_t rows, std::int64_t columns, memory::data_type type) {
  return {{rows, columns}, type, Tag::ab};
}
memory::desc transposed(std::int64_t rows, std::int64_t columns, memory::data_type type) {
  return {{rows, columns}, type, Tag::ba};
}
/// y or dy.
memory::desc outputs_of(const LinearExtents& e) {
  return {{e.rows, e.out}, kBf16, memory::dims{e.out_pitch, 1}};
}
memory::desc transposed_outputs_of(const LinearExtents& e) {
  return {{e.out, e.rows}, kBf16, memory::dims{1, e.out_pitch}};
}

/// y = x W^T + b, or dx = dy W: a GEMM with a packed bf16 copy of W. What the rows of y have
/// beyond `c` becomes zero.
class PackedProduct final : public Kernel {
 public:
  /// `plain`: the fp32 weight as matrix B. `name` tells W from its transpose, which may have the
  /// same layout.
  PackedProduct(const std::string& name,
                const memory::desc& a,
                const memory::desc& plain,
                bool bias,
                const memory::desc& c,
                std::int64_t c_pitch,
                const std::string& what)
      : bias_(bias),
        rows_(dnnl_versions::dims_of(c)[0]),
        columns_(dnnl_versions::dims_of(c)[1]),
        pitch_(c_pitch) {
    const memory::desc any(dnnl_versions::dims_of(plain), kBf16, Tag::any);
    const memory::desc bias_layout({1, columns_}, kF32, Tag::ab);
    const auto desc = product(a, any, bias ? &bias_layout : nullptr, c, false);
    const memory::desc packed = desc.weights_desc();
    packed_copy_ = {1, name + layout_name(packed), packed.get_size()};
    const dnnl::engine& engine = dnnl_engine();
    pack_ =
        DnnlStep(what, dnnl::reorder(dnnl::reorder::primitive_desc(engine, plain, engine, packed)));
    pack_.add(DNNL_ARG_FROM, plain);
    pack_.add(DNNL_ARG_TO, packed);
    product_ = DnnlStep(what, dnnl::matmul(desc));
    product_.add(DNNL_ARG_SRC, a);
    product_.add(DNNL_ARG_WEIGHTS, packed);
    if (bias) product_.add(DNNL_ARG_BIAS, bias_layout);
    product_.add(DNNL_ARG_DST, c);
    product_.add(DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc());
    scratchpad_bytes_ = desc.scratchpad_desc().get_size();
  }

  std::size_t workspace_bytes() const override { return scratchpad_bytes_; }
  std::vector<PackedCopy> packed_copies() const override { return {packed_copy_}; }
  void bind(const KernelBuffers& buffers) override {
    pack_.bind(DNNL_ARG_FROM, buffers.inputs[1]);
    pack_.bind(DNNL_ARG_TO, buffers.packed[0]);
    product_.bind(DNNL_ARG_SRC, buffers.inputs[0]);
    product_.bind(DNNL_ARG_WEIGHTS, buffers.packed[0]);
    if (bias_) product_.bind(DNNL_ARG_BIAS, buffers.inputs[2]);
    product_.bind(DNNL_ARG_DST, buffers.outputs[0]);
    product_.bind(DNNL_ARG_SCRATCHPAD, buffers.workspace);
    y_ = static_cast<Bf16*>(buffers.outputs[0]);
  }
  void pack(int) override { pack_.run(); }
  void run(const RunState&) override {
    product_.run();
    zero_padding(y_, rows_, columns_, pitch_);
  }

 private:
  bool bias_;
  std::int64_t rows_, columns_, pitch_;  // of c
  Bf16* y_ = nullptr;
  DnnlStep product_, pack_;
  PackedCopy packed_copy_;
  std::size_t scratchpad_bytes_ = 0;
};

/// dW (=|+=) dy^T x, fp32.
class WeightGradient final : public Kernel {
 public:
  WeightGradient(const LinearExtents& e, bool bias, const KernelSpec& spec)
      : e_(e), bias_(bias), accumulates_(spec.output_accumulates) {
    accumulates_.resize(2);
    const memory::desc a = transposed_outputs_of(e), b = row_major(e.rows, e.in, kBf16);
    const memory::desc c = row_major(e.out, e.in, kF32);
    for (bool accumulate : {false, true}) {
      const auto desc = product(a, b, nullptr, c, accumulate);
      DnnlStep& step = accumulate ? adding_product_ : product_;
      step = DnnlStep(describe(spec), dnnl::matmul(desc));
      step.add(DNNL_ARG_SRC, a);
      step.add(DNNL_ARG_WEIGHTS, b);
      step.add(DNNL_ARG_DST, c);
      step.add(DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc());
      scratchpad_bytes_ = std::max(scratchpad_bytes_, desc.scratchpad_desc().get_size());
    }
  }

  std::size_t workspace_bytes() const override { return scratchpad_bytes_; }
  void bind(const KernelBuffers& buffers) override {
    for (DnnlStep* step : {&product_, &adding_product_}) {
      step->bind(DNNL_ARG_SRC, buffers.inputs[1]);
      step->bind(DNNL_ARG_WEIGHTS, buffers.inputs[0]);
      step->bind(DNNL_ARG_DST, buffers.outputs[0]);
      step->bind(DNNL_ARG_SCRATCHPAD, buffers.workspace);
    }
    dy_ = static_cast<const Bf16*>(buffers.inputs[1]);
    if (bias_) db_ = static_cast<float*>(buffers.outputs[1]);
  }
  void run(const RunState& state) override {
    (state.accumulate && accumulates_[0] ? adding_product_ : product_).run();
    if (bias_) sums_(db_, dy_, e_.rows, e_.out, state.accumulate && accumulates_[1]);
  }

 private:
  LinearExtents e_;
  bool bias_;
  std::vector<bool> accumulates_;
  DnnlStep product_, adding_product_;
  std::size_t scratchpad_bytes_ = 0;
  const Bf16* dy_ = nullptr;
  float* db_ = nullptr;
  decltype(&baseline::column_sums<Bf16>) sums_ = LOCKSTEP_CHOOSE(column_sums<Bf16>);
};

}  // namespace

std::unique_ptr<Kernel> make_bf16_linear(const LinearExtents& e,
                                         bool bias,
                                         const KernelSpec& spec) {
  const std::string what = describe(spec);
  return translate(what, [&] {
    return std::make_unique<PackedProduct>("linear.bf16.wt.",
                                           row_major(e.rows, e.in, kBf16),
                                           transposed(e.in, e.out, kF32),
                                           bias,
                                           outputs_of(e),
                                           e.out_pitch,
                                           what);
  });
}

std::unique_ptr<Kernel> make_bf16_linear_bwd_data(const LinearExtents& e, const KernelSpec& spec) {
  const std::string what = describe(spec);
  return translate(what, [&] {
    return std::make_unique<PackedProduct>("linear.bf16.w.",
                                           outputs_of(e),
                                           row_major(e.out, e.in, kF32),
                                           false,
                                           row_major(e.rows, e.in, kBf16),
                                           e.in,
                                           what);
  });
}

std::unique_ptr<Kernel> make_bf16_linear_bwd_weights(const LinearExtents& e,
                                                     bool bias,
                                                     const KernelSpec& spec) {
  return translate(describe(spec), [&] { return std::make_unique<WeightGradient>(e, bias, spec); });
}

}  // namespace lockstep::cpu
