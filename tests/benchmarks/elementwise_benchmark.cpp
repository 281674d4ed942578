// SPDX-License-Identifier: Apache-2.0
// Time and bytes per second of the CPU kernels that are no matrix products, each tensor counted
// once, beside memcpy. Convnet activations [32, 28, 28, 32] stay in the cache, [64, 32, 32, 64] is
// 16 MiB a tensor.
#include <benchmark/benchmark.h>
#include <cstring>
#include <string>

#include "core/ops/add.h"
#include "core/ops/avg_pool2d.h"
#include "core/ops/batch_norm.h"
#include "core/ops/dropout.h"
#include "core/ops/global_avg_pool.h"
#include "core/ops/max_pool2d.h"
#include "core/ops/mean_squared_error.h"
#include "core/ops/normalize.h"
#include "core/ops/relu.h"
#include "core/ops/softmax_cross_entropy.h"
#include "kernels/cpu/kernel_list.h"

namespace lockstep {
namespace {

using Factory = std::unique_ptr<Kernel> (*)(const KernelSpec&);

/// Zeroed memory aligned to 4096 bytes.
class Memory {
 public:
  explicit Memory(std::size_t bytes) : storage_(bytes + 4096) {
    data_ = storage_.data() + (4096 - reinterpret_cast<std::uintptr_t>(storage_.data()) % 4096);
  }
  void* data() { return data_; }

 private:
  std::vector<std::byte> storage_;
  std::byte* data_;
};

void run_kernel(benchmark::State& state,
                const Operator& op,
                std::vector<TensorType> inputs,
                Factory factory) {
  KernelSpec spec{op, inputs, op.infer(inputs), "layer", std::vector<int>(inputs.size(), -1), {}};
  spec.output_accumulates.assign(spec.outputs.size(), false);
  const std::unique_ptr<Kernel> kernel = factory(spec);
  std::vector<Memory> memory;
  KernelBuffers buffers;
  double bytes = 0;
  for (const TensorType& type : spec.inputs) {
    buffers.inputs.push_back(memory.emplace_back(type.bytes()).data());
    auto* values = static_cast<float*>(memory.back().data());
    if (type.dtype == DType::f32)
      for (std::int64_t i = 0; i < type.elems(); ++i) values[i] = float(i * 7 % 23) / 8 - 1;
    bytes += double(type.bytes());
  }
  for (const TensorType& type : spec.outputs) {
    buffers.outputs.push_back(memory.emplace_back(type.bytes()).data());
    bytes += double(type.bytes());
  }
  buffers.workspace = memory.emplace_back(kernel->workspace_bytes()).data();
  kernel->bind(buffers);
  const RunState run_state{.seed = 1, .step = 1};
  for (auto _ : state) {
    kernel->run(run_state);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(std::int64_t(bytes) * std::int64_t(state.iterations()));
}

template <typename... Inputs>
void add_benchmark(const std::string& name,
                   std::shared_ptr<const Operator> op,
                   Factory factory,
                   Inputs... inputs) {
  const std::vector<TensorType> types{inputs...};
  benchmark::RegisterBenchmark(
      (name + " " + types[0].shape.to_string()).c_str(),
      [=](benchmark::State& state) { run_kernel(state, *op, types, factory); });
}

#define LOCKSTEP_FACTORY(Type, stem)                                     \
  [](const KernelSpec& spec) {                                           \
    return cpu::make_##stem##_kernel(op_cast<ops::Type>(spec.op), spec); \
  }

TensorType f32(const Shape& shape) { return {shape, DType::f32}; }

void add_feature_map(const Shape& x) {
  const Shape c{x[3]}, pooled{x[0], x[1] / 2, x[2] / 2, x[3]}, saved{1, 2, x[3]};
  const Shape moments{1, 1, 3, x[3]}, sums{1, 1, 2, x[3]};
  const ops::Pool2dAttrs two{2, 2, 2, 2, 0, 0}, three{3, 3, 2, 2, 1, 1};
  const auto make = [](auto op) { return std::make_shared<decltype(op)>(op); };
  add_benchmark("relu", make(ops::Relu()), LOCKSTEP_FACTORY(Relu, relu), f32(x));
  add_benchmark(
      "relu_bwd", make(ops::ReluBwd()), LOCKSTEP_FACTORY(ReluBwd, relu_bwd), f32(x), f32(x));
  add_benchmark("add", make(ops::Add()), LOCKSTEP_FACTORY(Add, add), f32(x), f32(x));
  add_benchmark("dropout", make(ops::Dropout(0.5f)), LOCKSTEP_FACTORY(Dropout, dropout), f32(x));
  add_benchmark(
      "max_pool2d 2x2", make(ops::MaxPool2d(two)), LOCKSTEP_FACTORY(MaxPool2d, max_pool2d), f32(x));
  add_benchmark("max_pool2d_bwd 2x2",
                make(ops::MaxPool2dBwd(two, x)),
                LOCKSTEP_FACTORY(MaxPool2dBwd, max_pool2d_bwd),
                f32(pooled),
                TensorType{pooled, DType::u8});
  add_benchmark("max_pool2d 3x3/2",
                make(ops::MaxPool2d(three)),
                LOCKSTEP_FACTORY(MaxPool2d, max_pool2d),
                f32(x));
  add_benchmark("max_pool2d_bwd 3x3/2",
                make(ops::MaxPool2dBwd(three, x)),
                LOCKSTEP_FACTORY(MaxPool2dBwd, max_pool2d_bwd),
                f32(pooled),
                TensorType{pooled, DType::u8});
  add_benchmark(
      "avg_pool2d 2x2", make(ops::AvgPool2d(two)), LOCKSTEP_FACTORY(AvgPool2d, avg_pool2d), f32(x));
  add_benchmark("avg_pool2d_bwd 2x2",
                make(ops::AvgPool2dBwd(two, x)),
                LOCKSTEP_FACTORY(AvgPool2dBwd, avg_pool2d_bwd),
                f32(pooled));
  add_benchmark("global_avg_pool",
                make(ops::GlobalAvgPool()),
                LOCKSTEP_FACTORY(GlobalAvgPool, global_avg_pool),
                f32(x));
  add_benchmark("global_avg_pool_bwd",
                make(ops::GlobalAvgPoolBwd(x)),
                LOCKSTEP_FACTORY(GlobalAvgPoolBwd, global_avg_pool_bwd),
                f32({x[0], x[3]}));
  add_benchmark("batch_norm_moments",
                make(ops::BatchNormMoments(0)),
                LOCKSTEP_FACTORY(BatchNormMoments, batch_norm_moments),
                f32(x));
  add_benchmark("batch_norm_normalize",
                make(ops::BatchNormNormalize(0, 1e-5f)),
                LOCKSTEP_FACTORY(BatchNormNormalize, batch_norm_normalize),
                f32(x),
                f32(c),
                f32(c),
                f32(moments),
                f32(c),
                f32(c),
                f32({1}));
  add_benchmark("batch_norm_bwd_sums",
                make(ops::BatchNormBwdSums(0)),
                LOCKSTEP_FACTORY(BatchNormBwdSums, batch_norm_bwd_sums),
                f32(x),
                f32(x),
                f32(saved));
  add_benchmark("batch_norm_bwd_data",
                make(ops::BatchNormBwdData(0)),
                LOCKSTEP_FACTORY(BatchNormBwdData, batch_norm_bwd_data),
                f32(x),
                f32(x),
                f32(c),
                f32(saved),
                f32(moments),
                f32(sums));
  add_benchmark("batch_norm_inference",
                make(ops::BatchNormInference(1e-5f)),
                LOCKSTEP_FACTORY(BatchNormInference, batch_norm_inference),
                f32(x),
                f32(c),
                f32(c),
                f32(c),
                f32(c));
}

void add_small() {
  const Shape hidden{120, 10};
  add_benchmark("relu", std::make_shared<ops::Relu>(), LOCKSTEP_FACTORY(Relu, relu), f32(hidden));
  add_benchmark("relu_bwd",
                std::make_shared<ops::ReluBwd>(),
                LOCKSTEP_FACTORY(ReluBwd, relu_bwd),
                f32(hidden),
                f32(hidden));
  for (const Shape& logits : std::vector<Shape>{{120, 3}, {120, 10}, {32, 10}, {32, 1000}})
    add_benchmark("softmax_cross_entropy",
                  std::make_shared<ops::SoftmaxCrossEntropy>(0.0f, true),
                  LOCKSTEP_FACTORY(SoftmaxCrossEntropy, softmax_cross_entropy),
                  f32(logits),
                  TensorType{{logits[0]}, DType::i32},
                  f32({1}));
  for (const Shape& x : std::vector<Shape>{{120, 1}, {32, 64}})
    add_benchmark("mean_squared_error",
                  std::make_shared<ops::MeanSquaredError>(true),
                  LOCKSTEP_FACTORY(MeanSquaredError, mean_squared_error),
                  f32(x),
                  f32(x),
                  f32({1}));
  add_benchmark("normalize u8",
                std::make_shared<ops::Normalize>(std::vector{0.1f}, std::vector{0.2f}),
                LOCKSTEP_FACTORY(Normalize, normalize),
                TensorType{{32, 28, 28, 1}, DType::u8});
  add_benchmark(
      "normalize",
      std::make_shared<ops::Normalize>(std::vector<float>(4, 0.1f), std::vector<float>(4, 0.2f)),
      LOCKSTEP_FACTORY(Normalize, normalize),
      f32({120, 4}));
  add_benchmark("batch_norm_moments",
                std::make_shared<ops::BatchNormMoments>(0),
                LOCKSTEP_FACTORY(BatchNormMoments, batch_norm_moments),
                f32(hidden));
}

void add_memcpy(const Shape& shape) {
  const std::size_t bytes = f32(shape).bytes();
  benchmark::RegisterBenchmark(
      ("memcpy " + shape.to_string()).c_str(), [=](benchmark::State& state) {
        Memory from(bytes), to(bytes);
        for (auto _ : state) {
          std::memcpy(to.data(), from.data(), bytes);
          benchmark::ClobberMemory();
        }
        state.SetBytesProcessed(std::int64_t(2 * bytes) * std::int64_t(state.iterations()));
      });
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  for (const lockstep::Shape& x :
       std::vector<lockstep::Shape>{{32, 28, 28, 32}, {64, 32, 32, 64}}) {
    lockstep::add_memcpy(x);
    lockstep::add_feature_map(x);
  }
  lockstep::add_small();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}
