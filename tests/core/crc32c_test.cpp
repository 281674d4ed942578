// SPDX-License-Identifier: Apache-2.0
#include "core/base/crc32c.h"

#include <gtest/gtest.h>
#include <string>

namespace lockstep {
namespace {

TEST(Crc32c, KnownValues) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);              // the catalogue's check value
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);    // RFC 3720, B.4
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);  // the same
  EXPECT_EQ(crc32c(""), 0u);
}

}  // namespace
}  // namespace lockstep
