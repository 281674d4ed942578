// SPDX-License-Identifier: Apache-2.0
// Small kernels: at the limits of what is small, and joined, with the bits of kernels that run
// apart.
#include <algorithm>
#include <array>

#include "core/ops/activations/relu.h"
#include "core/ops/linear.h"
#include "tests/ops/cuda_fixture.h"
#include "tests/ops/op_case.h"
#include "tests/ops/product_tolerance.h"
#include "tests/reference/linear.h"

namespace lockstep::test {
namespace {

class CudaSmallKernels : public CudaTest {
 protected:
  void check(const OpCase& test_case, Reference reference) {
    const auto factory = [this](const KernelSpec& spec) { return backend().make_kernel(spec); };
    check_case(test_case, factory, reference, {backend(), /*exact=*/true});
  }
};

TEST_F(CudaSmallKernels, LayersAtTheLimitsAndBeyond) {
  for (const auto& [rows, in, out] : {std::array{256, 16, 8},
                                      {16, 256, 8},
                                      {8, 16, 256},
                                      {256, 128, 1},
                                      {256, 24, 4},
                                      {257, 16, 7},
                                      {16, 257, 7},
                                      {255, 17, 8}}) {
    const std::string name = fmt::format("{}x{}->{}", rows, in, out);
    check({.name = name,
           .op = std::make_shared<ops::Linear>(true),
           .inputs = {random_f32({rows, in}, 1), random_f32({out, in}, 2), random_f32({out}, 3)},
           .tolerances = {of_products(in)},
           .parameters = {1, 2}},
          linear_reference);
    check({.name = name,
           .op = std::make_shared<ops::LinearBwdData>(),
           .inputs = {random_f32({rows, out}, 4), random_f32({out, in}, 5)},
           .tolerances = {of_products(out)},
           .parameters = {1}},
          linear_bwd_data_reference);
    check({.name = name,
           .op = std::make_shared<ops::LinearBwdWeights>(true),
           .inputs = {random_f32({rows, in}, 6), random_f32({rows, out}, 7)},
           .tolerances = {of_products(rows), of_products(rows)}},
          linear_bwd_weights_reference);
  }
}

/// x -> relu -> relu -> ..., each from one buffer to the next.
class Chain {
 public:
  Chain(Backend& backend, std::int64_t elems, int length) : backend_(backend), elems_(elems) {
    const TensorType type{{elems}, DType::f32};
    const ops::Relu relu;
    memory_ = backend.allocate(std::size_t(elems * (length + 1)) * sizeof(float), "chain");
    for (int i = 0; i < length; ++i) {
      kernels_.push_back(backend.make_kernel({relu, {type}, {type}, "relu", {-1}, {false}}));
      kernels_.back()->bind({{at(i)}, {at(i + 1)}, nullptr, {}});
      pointers_.push_back(kernels_.back().get());
    }
    const HostTensor x = random_f32({elems}, 1);
    backend.copy_to_device(at(0), x.bytes.data(), x.bytes.size());
  }
  std::span<Kernel* const> kernels() const { return pointers_; }
  std::vector<float> value(int i) {
    std::vector<float> values(std::size_t(elems_), 0.0f);
    backend_.copy_to_host(values.data(), at(i), values.size() * sizeof(float));
    return values;
  }

 private:
  float* at(int i) { return memory_->as<float>() + i * elems_; }

  Backend& backend_;
  std::int64_t elems_;
  std::unique_ptr<DeviceBuffer> memory_;
  std::vector<std::unique_ptr<Kernel>> kernels_;
  std::vector<Kernel*> pointers_;
};

TEST_F(CudaSmallKernels, ALongRunIsAsManyLaunchesAsItNeeds) {
  constexpr int kLength = 60;
  Chain chain(backend(), 100, kLength);
  std::span<Kernel* const> left = chain.kernels();
  int launches = 0;
  for (; !left.empty(); ++launches) {
    const JoinedKernels joined = backend().join(left);
    ASSERT_TRUE(joined.kernel);
    ASSERT_GE(joined.count, 2u);
    joined.kernel->run({});
    left = left.subspan(joined.count);
  }
  EXPECT_LE(launches, 3);
  std::vector<float> expected = chain.value(0);
  for (float& x : expected) x = std::max(x, 0.0f);
  EXPECT_EQ(chain.value(kLength), expected);
}

TEST_F(CudaSmallKernels, WhatIsNotSmallOrStandsAloneIsNotJoined) {
  EXPECT_FALSE(backend().join(Chain(backend(), 20000, 3).kernels()).kernel);
  EXPECT_FALSE(backend().join(Chain(backend(), 100, 1).kernels()).kernel);
  EXPECT_FALSE(backend().join({}).kernel);
  const Chain small(backend(), 100, 2), large(backend(), 20000, 1);
  const std::vector<Kernel*> mixed{small.kernels()[0], small.kernels()[1], large.kernels()[0]};
  EXPECT_EQ(backend().join(mixed).count, 2u);
}

}  // namespace
}  // namespace lockstep::test
