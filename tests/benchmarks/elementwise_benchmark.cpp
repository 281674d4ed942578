// SPDX-License-Identifier: Apache-2.0
// Time, bytes per second and percent of the roofline, by peaks measured at the start, of the CPU
// kernels that are not GEMMs, each tensor counted once, compared with memcpy. Convnet activations
// [32, 28, 28, 32] stay in the cache, [64, 32, 32, 64] is 16 MiB a tensor.
#include <cstring>
#include <string>

#include "core/ops/activations/relu.h"
#include "core/ops/add.h"
#include "core/ops/dropout.h"
#include "core/ops/losses/regression_losses.h"
#include "core/ops/losses/softmax_cross_entropy.h"
#include "core/ops/normalize.h"
#include "core/ops/norms/batch_norm.h"
#include "core/ops/pooling/avg_pool2d.h"
#include "core/ops/pooling/global_avg_pool.h"
#include "core/ops/pooling/max_pool2d.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/benchmarks/operator_benchmark.h"

namespace lockstep {
namespace {

/// Memory aligned to 4096 bytes.
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

template <typename... Inputs>
void add_benchmark(const Machine& machine,
                   const std::string& name,
                   std::shared_ptr<const Operator> op,
                   Inputs... inputs) {
  const std::vector<TensorType> types{inputs...};
  benchmark::RegisterBenchmark((name + " " + types[0].shape.to_string()).c_str(),
                               [=](benchmark::State& state) {
                                 OperatorRun run(machine.backend, *op, types);
                                 time_operator(state, run, machine);
                               });
}

TensorType f32(const Shape& shape) { return {shape, DType::f32}; }

void add_feature_map(const Machine& machine, const Shape& x) {
  const Shape c{x[3]}, pooled{x[0], x[1] / 2, x[2] / 2, x[3]}, saved{1, 2, x[3]};
  const Shape moments{1, 1, 3, x[3]}, sums{1, 1, 2, x[3]};
  const ops::Pool2dAttrs two{2, 2, 2, 2, 0, 0}, three{3, 3, 2, 2, 1, 1};
  const auto make = [](auto op) { return std::make_shared<decltype(op)>(op); };
  add_benchmark(machine, "relu", make(ops::Relu()), f32(x));
  add_benchmark(machine, "relu_bwd", make(ops::ReluBwd()), f32(x), f32(x));
  add_benchmark(machine, "add", make(ops::Add()), f32(x), f32(x));
  add_benchmark(machine, "dropout", make(ops::Dropout(0.5f)), f32(x));
  add_benchmark(machine, "max_pool2d 2x2", make(ops::MaxPool2d(two)), f32(x));
  add_benchmark(machine,
                "max_pool2d_bwd 2x2",
                make(ops::MaxPool2dBwd(two, x)),
                f32(pooled),
                TensorType{pooled, DType::u8});
  add_benchmark(machine, "max_pool2d 3x3/2", make(ops::MaxPool2d(three)), f32(x));
  add_benchmark(machine,
                "max_pool2d_bwd 3x3/2",
                make(ops::MaxPool2dBwd(three, x)),
                f32(pooled),
                TensorType{pooled, DType::u8});
  add_benchmark(machine, "avg_pool2d 2x2", make(ops::AvgPool2d(two)), f32(x));
  add_benchmark(machine, "avg_pool2d_bwd 2x2", make(ops::AvgPool2dBwd(two, x)), f32(pooled));
  add_benchmark(machine, "global_avg_pool", make(ops::GlobalAvgPool()), f32(x));
  add_benchmark(machine, "global_avg_pool_bwd", make(ops::GlobalAvgPoolBwd(x)), f32({x[0], x[3]}));
  add_benchmark(machine, "batch_norm_moments", make(ops::BatchNormMoments(0)), f32(x));
  add_benchmark(machine,
                "batch_norm_normalize",
                make(ops::BatchNormNormalize(0, 1e-5f)),
                f32(x),
                f32(c),
                f32(c),
                f32(moments),
                f32(c),
                f32(c),
                f32({1}));
  add_benchmark(
      machine, "batch_norm_bwd_sums", make(ops::BatchNormBwdSums(0)), f32(x), f32(x), f32(saved));
  add_benchmark(machine,
                "batch_norm_residual_bwd_sums two uses",
                make(ops::BatchNormResidualBwdSums(0, true)),
                f32(x),
                f32(x),
                f32(saved),
                f32(x),
                f32(x));
  add_benchmark(machine,
                "batch_norm_bwd_data",
                make(ops::BatchNormBwdData(0)),
                f32(x),
                f32(x),
                f32(c),
                f32(saved),
                f32(moments),
                f32(sums));
  add_benchmark(machine,
                "batch_norm_inference",
                make(ops::BatchNormInference(1e-5f)),
                f32(x),
                f32(c),
                f32(c),
                f32(c),
                f32(c));
}

void add_small(const Machine& machine) {
  const Shape hidden{120, 10};
  add_benchmark(machine, "relu", std::make_shared<ops::Relu>(), f32(hidden));
  add_benchmark(machine, "relu_bwd", std::make_shared<ops::ReluBwd>(), f32(hidden), f32(hidden));
  for (const Shape& logits : std::vector<Shape>{{120, 3}, {120, 10}, {32, 10}, {32, 1000}})
    add_benchmark(machine,
                  "softmax_cross_entropy",
                  std::make_shared<ops::SoftmaxCrossEntropy>(0.0f, true),
                  f32(logits),
                  TensorType{{logits[0]}, DType::i32},
                  f32({1}));
  for (const Shape& x : std::vector<Shape>{{120, 1}, {32, 64}})
    add_benchmark(machine,
                  "mean_squared_error",
                  std::make_shared<ops::MeanSquaredError>(true),
                  f32(x),
                  f32(x),
                  f32({1}));
  add_benchmark(machine,
                "normalize u8",
                std::make_shared<ops::Normalize>(std::vector{0.1f}, std::vector{0.2f}),
                TensorType{{32, 28, 28, 1}, DType::u8});
  add_benchmark(
      machine,
      "normalize",
      std::make_shared<ops::Normalize>(std::vector<float>(4, 0.1f), std::vector<float>(4, 0.2f)),
      f32({120, 4}));
  add_benchmark(
      machine, "batch_norm_moments", std::make_shared<ops::BatchNormMoments>(0), f32(hidden));
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
  const auto backend = lockstep::make_cpu_backend();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  const lockstep::Machine machine = lockstep::measured(*backend);
  for (const lockstep::Shape& x :
       std::vector<lockstep::Shape>{{32, 28, 28, 32}, {64, 32, 32, 64}}) {
    lockstep::add_memcpy(x);
    lockstep::add_feature_map(machine, x);
  }
  lockstep::add_small(machine);
  benchmark::RunSpecifiedBenchmarks();
}
