// SPDX-License-Identifier: Apache-2.0
// Gradients of linear layers in the sizes of GPT-2, whose sums over the rows are long enough to be
// split among blocks: every run has the bits of the first.
#include <vector>

#include "core/ops/linear.h"
#include "tests/benchmarks/operator_run.h"
#include "tests/ops/cuda_fixture.h"

namespace lockstep::test {
namespace {

struct Product {
  std::int64_t rows, in, out;
  DType type;
};

/// linear_bwd_weights with a bias, on memory that each run finds poisoned in another way: what is
/// read before it is written, or not written, would show as well.
class PoisonedRuns {
 public:
  PoisonedRuns(Backend& backend, const Product& product)
      : backend_(backend),
        spec_{op_,
              {{{product.rows, product.in}, product.type},
               {{product.rows, product.out}, product.type}},
              {},
              "same bits",
              {-1, -1},
              {}} {
    spec_.outputs = op_.infer(spec_.inputs);
    spec_.output_accumulates = {true, true};
    kernel_ = backend.make_kernel(spec_);
    KernelBuffers buffers;
    for (const TensorType& type : spec_.inputs) {
      buffers.inputs.push_back(memory(type.bytes()));
      fill(backend, memory_.back()->data(), type, {}, memory_.size());
    }
    poisoned_from_ = memory_.size();
    for (const TensorType& type : spec_.outputs) buffers.outputs.push_back(memory(type.bytes()));
    buffers.workspace = memory(kernel_->workspace_bytes());
    kernel_->bind(buffers);
  }

  /// Both outputs' bits.
  std::vector<std::vector<std::byte>> run(int number) {
    for (std::size_t i = poisoned_from_; i < memory_.size(); ++i) {
      const std::vector<std::byte> poison(memory_[i]->bytes(), std::byte(0x70 + number));
      backend_.copy_to_device(memory_[i]->data(), poison.data(), poison.size());
    }
    kernel_->run({.seed = 1, .step = 1});
    std::vector<std::vector<std::byte>> outputs;
    for (std::size_t i = 0; i < spec_.outputs.size(); ++i) {
      outputs.emplace_back(spec_.outputs[i].bytes());
      backend_.copy_to_host(
          outputs[i].data(), memory_[poisoned_from_ + i]->data(), outputs[i].size());
    }
    return outputs;
  }

 private:
  void* memory(std::size_t bytes) {
    memory_.push_back(backend_.allocate(bytes, "same bits"));
    return memory_.back()->data();
  }

  Backend& backend_;
  ops::LinearBwdWeights op_{true};
  KernelSpec spec_;
  std::unique_ptr<Kernel> kernel_;
  std::vector<std::unique_ptr<DeviceBuffer>> memory_;
  std::size_t poisoned_from_ = 0;
};

class CudaSameBits : public CudaTest {
 protected:
  void check(Product product) {
    int runs = 20;
    if (backend().device_class().find("emulated") != std::string::npos) {
      product = {product.rows / 256 + 1, product.in / 64 + 1, product.out / 64 + 1, product.type};
      runs = 3;
    }
    PoisonedRuns kernel(backend(), product);
    const auto first = kernel.run(0);
    for (int number = 1; number < runs; ++number) {
      const auto again = kernel.run(number);
      EXPECT_EQ(first[0] == again[0], true) << "dW of run " << number << "\n" << chosen();
      EXPECT_EQ(first[1] == again[1], true) << "db of run " << number << "\n" << chosen();
    }
  }

 private:
  std::string chosen() { return backend().choices(); }
};

TEST_F(CudaSameBits, OfAWideLayersGradients) { check({8192, 768, 3072, DType::bf16}); }
TEST_F(CudaSameBits, OfANarrowLayersGradientsOverManyRows) {
  check({65536, 3072, 768, DType::bf16});
}
TEST_F(CudaSameBits, OfAWideLayersGradientsInFp32) { check({8192, 768, 3072, DType::f32}); }

}  // namespace
}  // namespace lockstep::test
