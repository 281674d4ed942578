// SPDX-License-Identifier: Apache-2.0
#include "core/ops/embedding/embedding.h"

#include <cmath>
#include <gtest/gtest.h>

#include "kernels/cpu/kernel_list.h"
#include "tests/ops/bf16_variant.h"
#include "tests/ops/op_case.h"
#include "tests/reference/transformer.h"

namespace lockstep::test {
namespace {

struct TableSize {
  std::int64_t samples, tokens, width, vocabulary, positions;
};

// Empty, single, vector tails, a table whose rows mostly stay unused, and tokens that occur 31 to
// 33, 65 and some hundred times: from 32 on they have blocks of their own on a GPU.
const TableSize kTableSizes[] = {{0, 5, 7, 11, 5},
                                 {2, 0, 7, 11, 5},
                                 {1, 1, 1, 1, 1},
                                 {3, 1, 33, 5, 4},
                                 {2, 7, 31, 3, 7},
                                 {4, 9, 16, 65, 12},
                                 {3, 64, 128, 65, 64},
                                 {1, 5, 48, 50257, 8},
                                 {1, 31, 8, 1, 31},
                                 {1, 32, 8, 1, 32},
                                 {1, 33, 3, 1, 33},
                                 {1, 65, 3, 1, 65},
                                 {3, 131, 132, 3, 131},
                                 {2, 150, 33, 2, 150}};

std::string name_of_table(const TableSize& s) {
  return fmt::format("{}x{}x{} of {}", s.samples, s.tokens, s.width, s.vocabulary);
}

/// Tokens that are drawn, with the first and the last of the vocabulary among them.
HostTensor tokens_of(const TableSize& s) {
  HostTensor x = random_i32({s.samples, s.tokens}, 1, std::uint32_t(s.vocabulary));
  if (x.type.elems() > 0) x.as<std::int32_t>()[0] = std::int32_t(s.vocabulary - 1);
  if (x.type.elems() > 1) x.as<std::int32_t>()[x.type.elems() - 1] = 0;
  return x;
}

std::vector<OpCase> embedding_cases() {
  std::vector<OpCase> cases;
  for (const TableSize& s : kTableSizes)
    for (int variant = 0; variant < 4; ++variant) {
      const bool positions = variant % 2 == 1;
      const DType output = variant < 2 ? DType::f32 : DType::bf16;
      // One addition, or none.
      OpCase c{name_of_table(s),
               std::make_shared<ops::Embedding>(positions, output),
               {tokens_of(s), random_f32({s.vocabulary, s.width}, 2)},
               {{.c = positions ? 1.0 : 0.0, .scale = 2}},
               {1}};
      if (positions) {
        c.inputs.push_back(random_f32({s.positions, s.width}, 3));
        c.parameters.push_back(2);
      }
      cases.push_back(c);
    }
  return cases;
}

std::vector<OpCase> embedding_bwd_tokens_cases() {
  std::vector<OpCase> cases;
  for (const TableSize& s : kTableSizes) {
    // A sum of as many values in [-1, 1) as a token occurs: a few times the even share.
    const double n = 8 + 4 * double(s.samples * s.tokens) / double(s.vocabulary);
    cases.push_back({name_of_table(s),
                     std::make_shared<ops::EmbeddingBwdTokens>(s.vocabulary),
                     {tokens_of(s), random_f32({s.samples, s.tokens, s.width}, 4)},
                     {{.c = 4, .n = n, .scale = std::sqrt(n)}}});
    cases.push_back(cases.back());
    cases.back().inputs[1] = rounded_to_bf16(cases.back().inputs[1]);
  }
  return cases;
}

std::vector<OpCase> embedding_bwd_positions_cases() {
  std::vector<OpCase> cases;
  for (const TableSize& s : kTableSizes) {
    cases.push_back({name_of_table(s),
                     std::make_shared<ops::EmbeddingBwdPositions>(s.positions),
                     {random_f32({s.samples, s.tokens, s.width}, 5)},
                     {{.c = 2, .n = double(s.samples + 1), .scale = 2}}});
    cases.push_back(cases.back());
    cases.back().inputs[0] = rounded_to_bf16(cases.back().inputs[0]);
  }
  return cases;
}

LOCKSTEP_OP_TEST(Embedding, embedding, embedding_reference, embedding_cases)
LOCKSTEP_OP_TEST(EmbeddingBwdTokens,
                 embedding_bwd_tokens,
                 embedding_bwd_tokens_reference,
                 embedding_bwd_tokens_cases)
LOCKSTEP_OP_TEST(EmbeddingBwdPositions,
                 embedding_bwd_positions,
                 embedding_bwd_positions_reference,
                 embedding_bwd_positions_cases)

TEST(EmbeddingGradient, FiniteDifferences) {
  const TableSize s{2, 3, 2, 4, 5};
  const OpCase forward{"x",
                       std::make_shared<ops::Embedding>(true),
                       {tokens_of(s), random_f32({4, 2}, 2), random_f32({5, 2}, 3)}};
  const HostTensor dy = random_f32({2, 3, 2}, 4);
  const auto tokens = embedding_bwd_tokens_reference(reference_args(
      {"dW", std::make_shared<ops::EmbeddingBwdTokens>(4), {forward.inputs[0], dy}}));
  const auto positions = embedding_bwd_positions_reference(
      reference_args({"dP", std::make_shared<ops::EmbeddingBwdPositions>(5), {dy}}));
  const ReferenceArgs args = reference_args(forward);
  check_gradient("embedding W", embedding_reference, args, 0, dy.to_double(), 1, tokens[0]);
  check_gradient("embedding P", embedding_reference, args, 0, dy.to_double(), 2, positions[0]);
}

}  // namespace
}  // namespace lockstep::test
