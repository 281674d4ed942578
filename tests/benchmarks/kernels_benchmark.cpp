// SPDX-License-Identifier: Apache-2.0
// Matrix kernels one by one, in the shapes of the models: time a call, GFLOP/s, GB/s and percent of
// the roofline of peaks measured at the start. Weights are packed before the clock starts; `pack`
// cases time that. CPU time, so that a busy neighbour disturbs less.
#include <string>

#include "core/ops/conv2d.h"
#include "core/ops/linear.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/benchmarks/operator_benchmark.h"

namespace lockstep {
namespace {

void add_case(const Machine& machine,
              const std::string& name,
              std::shared_ptr<const Operator> op,
              const std::vector<TensorType>& inputs,
              benchmark::TimeUnit unit) {
  benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
    OperatorRun run(machine.backend, *op, inputs);
    time_operator(state, run, machine);
  })->Unit(unit);
  if (!OperatorRun(machine.backend, *op, inputs).packs()) return;
  benchmark::RegisterBenchmark((name + "/pack").c_str(), [=](benchmark::State& state) {
    OperatorRun run(machine.backend, *op, inputs);
    for (auto _ : state) run.pack();
  })->Unit(unit);
}

TensorType f32(const Shape& shape) { return {shape, DType::f32}; }

void add_linear(const Machine& machine, std::int64_t samples, std::int64_t in, std::int64_t out) {
  const std::string name = fmt::format("{}x{}->{}", samples, in, out);
  const TensorType x = f32({samples, in}), w = f32({out, in}), b = f32({out}),
                   y = f32({samples, out});
  const auto add = [&](const char* kind, auto op, const std::vector<TensorType>& inputs) {
    add_case(machine, fmt::format("{}/{}", kind, name), op, inputs, benchmark::kNanosecond);
  };
  add("linear", std::make_shared<ops::Linear>(true), {x, w, b});
  add("linear_bwd_data", std::make_shared<ops::LinearBwdData>(), {y, w});
  add("linear_bwd_weights", std::make_shared<ops::LinearBwdWeights>(true), {x, y});
}

struct ConvSize {
  std::int64_t samples, image, in, out;
  int kernel, stride;
  bool bias;
};

void add_conv(const Machine& machine, const ConvSize& c) {
  const ops::Conv2dAttrs attrs{.stride_h = c.stride,
                               .stride_w = c.stride,
                               .padding_h = c.kernel / 2,
                               .padding_w = c.kernel / 2,
                               .bias = c.bias};
  const std::string name =
      fmt::format("{}x{}->{}@{}/k{}s{}", c.samples, c.in, c.out, c.image, c.kernel, c.stride);
  const TensorType x = f32({c.samples, c.image, c.image, c.in});
  const TensorType w = f32({c.out, c.kernel, c.kernel, c.in});
  std::vector<TensorType> inputs{x, w};
  if (c.bias) inputs.push_back(f32({c.out}));
  const auto forward = std::make_shared<ops::Conv2d>(attrs);
  const TensorType y = forward->infer(inputs)[0];
  const auto add = [&](const char* kind, auto op, const std::vector<TensorType>& types) {
    add_case(machine, fmt::format("{}/{}", kind, name), op, types, benchmark::kMicrosecond);
  };
  add("conv2d", forward, inputs);
  if (c.in > 3)
    add("conv2d_bwd_data", std::make_shared<ops::Conv2dBwdData>(attrs, x.shape), {y, w});
  add("conv2d_bwd_weights", std::make_shared<ops::Conv2dBwdWeights>(attrs, w.shape), {x, y});
}

void add_all(const Machine& machine) {
  // The iris network, the networks of compare_pytorch.py, the head of the convnet, wide layers.
  add_linear(machine, 120, 4, 10);
  add_linear(machine, 120, 10, 3);
  for (std::int64_t samples : {1, 32, 128}) {
    add_linear(machine, samples, 16, 64);
    add_linear(machine, samples, 64, 64);
    add_linear(machine, samples, 64, 10);
    add_linear(machine, samples, 784, 32);
    add_linear(machine, samples, 32, 10);
  }
  add_linear(machine, 32, 3136, 10);
  add_linear(machine, 64, 512, 512);
  add_linear(machine, 64, 2048, 2048);
  // The convnet at micro-batch 32, then resnet18 --stem cifar at 64.
  add_conv(machine, {32, 28, 1, 32, 3, 1, true});
  add_conv(machine, {32, 14, 32, 64, 3, 1, true});
  add_conv(machine, {64, 32, 3, 64, 3, 1, false});
  add_conv(machine, {64, 32, 64, 64, 3, 1, false});
  for (std::int64_t in = 64, image = 32; in < 512; in *= 2, image /= 2) {
    add_conv(machine, {64, image, in, 2 * in, 3, 2, false});
    add_conv(machine, {64, image, in, 2 * in, 1, 2, false});
    add_conv(machine, {64, image / 2, 2 * in, 2 * in, 3, 1, false});
  }
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  const auto backend = lockstep::make_cpu_backend();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  lockstep::add_all(lockstep::measured(*backend));
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
