// SPDX-License-Identifier: Apache-2.0
// What operator_rates says of the algorithms that run a product, and of what was refused.
#include "tests/gpu/chosen.h"

#include <gmock/gmock.h>

#include "core/ops/linear.h"
#include "kernels/cuda/device/algorithm_cache.h"
#include "tests/benchmarks/operator_run.h"
#include "tests/ops/cuda_fixture.h"
#include "tests/support/cuda_emulator/library_limits.h"

namespace lockstep::rates {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Chosen, IsWhatABookHolds) {
  cuda::AlgorithmCache book;
  book.choice("product a, none", [] { return cuda::AlgorithmChoice{"algorithm 1", ""}; });
  book.choice("product a, bias", [] { return cuda::AlgorithmChoice{"", "NOT_SUPPORTED"}; });
  const Chosen refused{"product a, bias", "", "NOT_SUPPORTED"};
  const Chosen taken{"product a, none", "algorithm 1", ""};
  EXPECT_THAT(chosen_in(book.to_text()), ElementsAre(refused, taken));
  EXPECT_EQ(words_of(refused), "fallback, as product a, bias was refused: NOT_SUPPORTED");
  EXPECT_EQ(words_of(taken), "product a, none: algorithm 1");
  EXPECT_THAT(chosen_in(""), ElementsAre());
}

TEST(Chosen, OfALongNumberHasTheFirstDigits) {
  const Chosen chosen{"product", "workspace 8 algorithm " + std::string(128, '7'), ""};
  EXPECT_EQ(words_of(chosen), "product: workspace 8 algorithm " + std::string(24, '7') + "...");
}

class CudaChosen : public test::CudaTest {
 protected:
  void TearDown() override { cuda::library_limits() = {}; }

  std::vector<std::string> words_of_a_data_gradient() {
    backend().take_choices("");
    const OperatorRun run(backend(),
                          ops::LinearBwdData(ops::Activation::gelu_tanh),
                          {{{16, 24}, DType::bf16}, {{24, 8}, DType::f32}, {{16, 8}, DType::bf16}});
    std::vector<std::string> words;
    for (const Chosen& chosen : chosen_in(backend().choices())) words.push_back(words_of(chosen));
    return words;
  }
};

TEST_F(CudaChosen, TellsAFallbackFromAnEpilogueThatWasTaken) {
  EXPECT_THAT(words_of_a_data_gradient(),
              ElementsAre(HasSubstr("bf16 -> bf16, gelu_tanh_gradient: algorithm 0")));
  cuda::library_limits().matrix_gelu_gradient = false;
  EXPECT_THAT(words_of_a_data_gradient(),
              ElementsAre(StartsWith("fallback, as product 16x8x24"),
                          HasSubstr("bf16 -> bf16, none: algorithm 0")));
}

}  // namespace
}  // namespace lockstep::rates
