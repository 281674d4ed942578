// SPDX-License-Identifier: Apache-2.0
// What a library of GEMMs is asked for and may misunderstand: types of biases and of
// gradients that differ from those of the factors. With factors whose sums are known, in the sizes
// of GPT-2, to the bit.
#include <algorithm>

#include "core/ops/conv2d.h"
#include "core/ops/linear.h"
#include "kernels/cuda/linear/split_product.h"
#include "tests/ops/bf16_variant.h"
#include "tests/ops/cuda_fixture.h"
#include "tests/ops/op_case.h"

namespace lockstep::test {
namespace {

HostTensor bf16_filled(const Shape& shape, float value) {
  const auto elems = std::size_t(TensorType{shape, DType::f32}.elems());
  return rounded_to_bf16(f32_tensor(shape, std::vector<float>(elems, value)));
}

/// A small whole number that neighbours do not share.
std::int64_t number_of_column(std::int64_t column) { return column % 61; }

/// [rows, columns], of which all rows are number_of_column().
HostTensor numbered_columns(std::int64_t rows, std::int64_t columns) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < rows * columns; ++i)
    values.push_back(float(number_of_column(i % columns)));
  return rounded_to_bf16(f32_tensor({rows, columns}, values));
}

/// A linear layer whose rows of dy have gaps.
struct WholeGradient {
  std::int64_t rows, in, out, padded;
};

class CudaLibraryProducts : public CudaTest {
 protected:
  /// `of_device` on a GPU, `emulated` elsewhere, where products are plain loops.
  std::int64_t size(std::int64_t of_device, std::int64_t emulated) {
    const bool slow = backend().device_class().find("emulated") != std::string::npos;
    return slow ? emulated : of_device;
  }
  std::vector<HostTensor> run(const OpCase& test_case) {
    return run_kernel(
        test_case,
        [this](const KernelSpec& spec) { return backend().make_kernel(spec); },
        TestMemory{backend()});
  }
  std::string chosen() { return "chosen:\n" + backend().choices(); }

  /// Sums of as many ones as there are rows, times a number that tells columns apart.
  void expect_whole_gradient(const WholeGradient& of) {
    const auto outputs =
        run({.name = "columns that differ",
             .op = std::make_shared<ops::LinearBwdWeights>(false, of.out),
             .inputs = {bf16_filled({of.rows, of.in}, 1), numbered_columns(of.rows, of.padded)}});
    const std::vector<double> gradient = outputs[0].to_double();
    ASSERT_EQ(gradient.size(), std::size_t(of.out * of.in));
    for (std::size_t i = 0; i < gradient.size(); ++i)
      ASSERT_EQ(gradient[i], double(of.rows * number_of_column(std::int64_t(i) / of.in)))
          << "output " << std::int64_t(i) / of.in << "\n"
          << chosen();
  }
};

TEST_F(CudaLibraryProducts, ABiasBehindABf16ProductIsRoundedAlone) {
  const std::int64_t rows = size(1024, 32), in = size(768, 64), out = size(3072, 96);
  const HostTensor bias = random_f32({out}, 3);
  for (const auto activation : {ops::Activation::none, ops::Activation::relu}) {
    const HostTensor y =
        run({.name = "nothing but the bias",
             .op = std::make_shared<ops::Linear>(true, activation),
             .inputs = {bf16_filled({rows, in}, 0), random_f32({out, in}, 2), bias},
             .parameters = {1, 2}})[0];
    const std::vector<double> actual = y.to_double(), expected = rounded_to_bf16(bias).to_double();
    for (std::size_t i = 0; i < actual.size(); ++i) {
      const double b = expected[i % std::size_t(out)];
      ASSERT_EQ(actual[i], activation == ops::Activation::relu ? std::max(b, 0.0) : b)
          << "row " << i / std::size_t(out) << ", column " << i % std::size_t(out) << "\n"
          << chosen();
    }
  }
}

// Sums that bf16 does not hold, of one summand for each row. cuBLASLt 13.1 has dropped the last
// rows where it summed in parts whose number did not divide theirs.
TEST_F(CudaLibraryProducts, GradientsOfBf16AreSummedAndStoredInFp32) {
  const std::int64_t in = size(768, 32), out = size(768, 32);
  for (const std::int64_t rows : {size(65537, 4097), size(65544, 264), size(8193, 257)})
    for (const bool bias : {true, false}) {
      const auto outputs =
          run({.name = "ones",
               .op = std::make_shared<ops::LinearBwdWeights>(bias),
               .inputs = {bf16_filled({rows, in}, 1), bf16_filled({rows, out}, 1)}});
      for (std::size_t output = 0; output < outputs.size(); ++output)
        for (const double sum : outputs[output].to_double())
          ASSERT_EQ(sum, double(rows)) << (output == 0 ? "weights\n" : "biases\n") << chosen();
    }
}

// Note [Weight gradients of many outputs]: rows of two GEMMs, the last of them seen.
TEST_F(CudaLibraryProducts, GradientsOfManyOutputsAreWhole) {
  expect_whole_gradient({.rows = size(2048, 24), .in = size(768, 16), .out = 4099, .padded = 4160});
  // In parts as well.
  ASSERT_GT(cuda::parts_of_sum(4096, 8, 4096), 1);
  expect_whole_gradient({.rows = 4096, .in = 8, .out = 4099, .padded = 4160});
}

// Note [Long sums of few elements]: the head of a small vocabulary, whose rows of dy are padded.
TEST_F(CudaLibraryProducts, GradientsOfFewOutputsAreWhole) {
  const std::int64_t rows = size(16384, 4096), in = size(384, 16);
  ASSERT_GT(cuda::parts_of_sum(65, in, rows), 1);
  expect_whole_gradient({.rows = rows, .in = in, .out = 65, .padded = 72});
  expect_whole_gradient({.rows = rows, .in = in, .out = 70, .padded = 128});
}

// The rows of every part are summed, each once.
TEST_F(CudaLibraryProducts, GradientsOfOneByOneConvolutionsAreWhole) {
  const std::int64_t samples = size(256, 8), side = size(56, 32), in = size(64, 16),
                     out = size(256, 24), rows = samples * side * side;
  ASSERT_GT(cuda::parts_of_sum(out, in, rows), 1);
  std::vector<float> x, dy;
  double sum = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    x.insert(x.end(), std::size_t(in), float(row % 7));
    for (std::int64_t column = 0; column < out; ++column) dy.push_back(float(column % 5));
    sum += double(row % 7);
  }
  const auto outputs =
      run({.name = "rows and columns that differ",
           .op = std::make_shared<ops::Conv2dBwdWeights>(ops::Conv2dAttrs{}, Shape{out, 1, 1, in}),
           .inputs = {rounded_to_bf16(f32_tensor({samples, side, side, in}, x)),
                      rounded_to_bf16(f32_tensor({samples, side, side, out}, dy))}});
  const std::vector<double> gradient = outputs[0].to_double();
  ASSERT_EQ(gradient.size(), std::size_t(out * in));
  for (std::size_t i = 0; i < gradient.size(); ++i)
    ASSERT_EQ(gradient[i], sum * double(std::int64_t(i) / in % 5))
        << "output " << std::int64_t(i) / in << "\n"
        << chosen();
}

TEST(SplitProduct, PartsAreWholeAndLong) {
  for (std::int64_t k = 1; k < 3'000'000; k += k < 5000 ? 1 : 4999)
    for (const std::int64_t m : {1, 64, 512, 4096}) {
      const std::int64_t parts = cuda::parts_of_sum(m, 256, k);
      ASSERT_EQ(k % parts, 0) << k;
      if (parts == 1) continue;
      ASSERT_EQ(k / parts % 32, 0) << k;
      ASSERT_GE(k / parts, 256) << k;
    }
  EXPECT_EQ(cuda::parts_of_sum(4096, 1024, 1 << 20), 1) << "as many tiles as a device has room for";
}

}  // namespace
}  // namespace lockstep::test
