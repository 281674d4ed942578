// SPDX-License-Identifier: Apache-2.0
// CUDA kernels that do the CPU's operations in the CPU's order, and so must give its bits.
#include <cmath>
#include <numeric>

#include "kernels/cpu/cpu_backend.h"
#include "tests/ops/bf16_variant.h"
#include "tests/ops/cuda_fixture.h"
#include "tests/ops/op_case.h"
#include "tests/ops/optimizer_cases.h"

namespace lockstep::test {
namespace {

class CudaAgreement : public CudaTest {
 protected:
  /// The CPU's bits, but for the signs of zeros and which NaN it is.
  void check(const OpCase& test_case) {
    SCOPED_TRACE(fmt::format("{} {}, case '{}'",
                             name_of(test_case.op->kind()),
                             test_case.op->attributes(),
                             test_case.name));
    const auto outputs_of = [&](Backend& backend) {
      return run_kernel(
          test_case,
          [&](const KernelSpec& spec) { return backend.make_kernel(spec); },
          TestMemory{backend});
    };
    const auto want = outputs_of(*cpu_), got = outputs_of(backend());
    for (std::size_t i = 0; i < want.size(); ++i) {
      const std::vector<double> w = want[i].to_double(), g = got[i].to_double();
      for (std::size_t e = 0; e < w.size(); ++e)
        ASSERT_TRUE(w[e] == g[e] || (std::isnan(w[e]) && std::isnan(g[e])))
            << "output " << i << ", element " << e << ": the CPU gives " << w[e] << ", CUDA "
            << g[e];
    }
  }
  void check(OpKind kind, bool with_bf16) {
    for (const OpCase& test_case : find_op_suite(kind)->cases()) {
      const bool is_bf16 = test_case.inputs[0].type.dtype == DType::bf16;
      if (with_bf16 || !is_bf16) check(test_case);
      if (const auto variant = bf16_variant(test_case); variant && with_bf16) check(*variant);
    }
  }

 private:
  std::unique_ptr<Backend> cpu_ = make_cpu_backend();
};

TEST_F(CudaAgreement, OfElementwiseOperators) {
  for (OpKind kind : {OpKind::relu,
                      OpKind::relu_bwd,
                      OpKind::add,
                      OpKind::scale,
                      OpKind::channel_scale,
                      OpKind::cast,
                      OpKind::normalize,
                      OpKind::dropout,
                      OpKind::rotary,
                      OpKind::rotary_bwd})
    check(kind, true);
}

TEST_F(CudaAgreement, OfGeluAndSwigluInFp32) {
  check(OpKind::gelu, false);
  check(OpKind::gelu_bwd, false);
  check(OpKind::swiglu, false);
  check(OpKind::swiglu_bwd, false);
}

TEST_F(CudaAgreement, OfPooling) {
  for (OpKind kind : {OpKind::max_pool2d,
                      OpKind::max_pool2d_bwd,
                      OpKind::avg_pool2d,
                      OpKind::avg_pool2d_bwd,
                      OpKind::global_avg_pool,
                      OpKind::global_avg_pool_bwd})
    check(kind, true);
}

TEST_F(CudaAgreement, OfEmbeddings) {
  for (OpKind kind :
       {OpKind::embedding, OpKind::embedding_bwd_tokens, OpKind::embedding_bwd_positions})
    check(kind, true);
}

/// Over more ranges than one launch takes, of every length and alignment.
class CudaFlatAgreement : public CudaTest {
 protected:
  static constexpr std::int64_t kRanges = 300;

  CudaFlatAgreement() {
    for (std::int64_t i = 0; i < kRanges; ++i) {
      const std::int64_t length = i % 50 == 7 ? 9000 + i : i % 41;
      ranges_.push_back({elems_, length, i % 2 == 0 ? 0.1f : 0.0f, 1.0f + float(i % 3)});
      if (i % 3 == 0 && length > 0) ranges_.back().tensor = tensors_++;
      elems_ += length + i % 3 * 2;
    }
  }

  static constexpr int kArrays = 2 + kMaxOptimizerState;

  /// Arrays in the memory of `backend`, the same for each.
  struct Arrays {
    Arrays(Backend& backend, std::int64_t elems)
        : memory(backend.allocate(std::size_t(kArrays * elems) * sizeof(float), "arrays")) {
      for (std::int64_t i = 0; i < kArrays; ++i) {
        // Second moments are not negative.
        const HostTensor t = random_f32({elems}, std::uint64_t(i), i >= 2 ? 0.0f : -1.0f);
        array[i] = memory->as<float>() + i * elems;
        backend.copy_to_device(array[i], t.bytes.data(), t.bytes.size());
      }
    }
    std::unique_ptr<DeviceBuffer> memory;
    float* array[kArrays];
  };

  template <typename Update>
  void expect_same(Update update) {
    std::vector<float> results[2];
    Backend* const backends[] = {cpu_.get(), &backend()};
    for (int b = 0; b < 2; ++b) {
      Arrays arrays(*backends[b], elems_);
      update(*backends[b], arrays.array);
      results[b].resize(std::size_t(kArrays * elems_));
      backends[b]->copy_to_host(
          results[b].data(), arrays.memory->data(), results[b].size() * sizeof(float));
    }
    EXPECT_EQ(results[0], results[1]);
  }

  std::vector<FlatRange> ranges_;
  std::int64_t elems_ = 0;
  std::int32_t tensors_ = 0;
  std::unique_ptr<Backend> cpu_ = make_cpu_backend();
};

TEST_F(CudaFlatAgreement, OfOptimizers) {
  for (const Optimizer& optimizer : optimizer_cases())
    for (const std::uint64_t step : {0u, 2u}) {
      SCOPED_TRACE(fmt::format("{} step {}", to_string(optimizer), step));
      expect_same([&](Backend& backend, float* const* a) {
        OptimizerUpdate update{.optimizer = optimizer,
                               .params = a[0],
                               .grads = a[1],
                               .lr = 0.01f,
                               .grad_scale = 0.7f,
                               .step = step};
        std::copy_n(a + 2, state_arrays(optimizer), update.state.begin());
        run_kernels(backend, update, ranges_, tensors_in(ranges_));
      });
    }
}

TEST_F(CudaFlatAgreement, OfNormsAndStatistics) {
  std::vector<double> norms[2], kept[2];
  Backend* const backends[] = {cpu_.get(), &backend()};
  for (int b = 0; b < 2; ++b) {
    Arrays arrays(*backends[b], elems_);
    norms[b].assign(ranges_.size(), -1);
    backends[b]->squared_norms(arrays.array[0], ranges_, norms[b].data());
    // Those that stay on the device, and their sum.
    const auto place =
        backends[b]->allocate((ranges_.size() + 1) * sizeof(double), "squared norms");
    auto* const squared = place->as<double>();
    backends[b]->start_squared_norms(arrays.array[0], ranges_, squared);
    const std::int64_t count = std::ssize(ranges_);
    backends[b]->add_in_order(squared, {&count, 1}, squared + ranges_.size());
    kept[b].resize(ranges_.size() + 1);
    backends[b]->copy_to_host(kept[b].data(), squared, place->bytes());
  }
  EXPECT_EQ(norms[0], norms[1]);
  EXPECT_EQ(kept[0], kept[1]);
  EXPECT_EQ(kept[1].back(), std::accumulate(norms[0].begin(), norms[0].end(), 0.0));
  kept[1].pop_back();
  EXPECT_EQ(kept[1], norms[0]);
  expect_same([&](Backend& backend, float* const* a) {
    const RunningStatistic statistics[] = {{1, 70, 0, 0.1f}, {80, elems_ - 80, 75, 0.3f}};
    backend.update_running_statistics(a[0], a[1], statistics, nullptr);
  });
  expect_same([&](Backend& backend, float* const* a) {
    backend.add(a[0] + 1, a[1], a[2] + 3, elems_ - 3);
  });
}

}  // namespace
}  // namespace lockstep::test
