// SPDX-License-Identifier: Apache-2.0
#include "launcher/predict/token_bytes.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>

#include "lockstep/data/sources.h"
#include "parallel/comm/self_communicator.h"

namespace lockstep {
namespace {

std::optional<double> bits_of(const std::string& text, double loss, std::int64_t context) {
  const auto file = std::filesystem::path(::testing::TempDir()) / "lockstep_token_bytes.txt";
  std::ofstream(file, std::ios::binary) << text;
  data::OpenOptions options;
  options.context = context;
  options.validation_fraction = 0.5;
  SelfCommunicator self;
  return bits_per_byte(loss, *data::text(file.string(), options).validation, self);
}

// Of the last half's characters all but the first are targets once, whatever the windows.
TEST(BitsPerByte, OfOneByteCharactersAreBitsPerToken) {
  for (const std::int64_t context : {3, 4, 7})
    EXPECT_DOUBLE_EQ(bits_of("hello, world: abc", std::log(8.0), context).value(), 3) << context;
}

TEST(BitsPerByte, CountsBytesOfUtf8) {
  // Targets: 1 + 2 + 3 + 4 bytes in 4 characters.
  const auto bits = bits_of("aaaaaba\u00e9\u20ac\U0001f600", std::log(2.0), 2);
  EXPECT_DOUBLE_EQ(bits.value(), 4.0 / 10);
}

TEST(BitsPerByte, NeedsTheTextOfTokens) {
  SelfCommunicator self;
  EXPECT_FALSE(bits_per_byte(1, *data::glyphs(4, 4).validation, self));
}

}  // namespace
}  // namespace lockstep
