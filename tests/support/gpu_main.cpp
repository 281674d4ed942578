// SPDX-License-Identifier: Apache-2.0
// main() of the tests that need a GPU: without one they are skipped (exit code 77), never passed.
#include <gtest/gtest.h>
#include <iostream>

#include "tests/support/test_backend.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const std::string missing = lockstep::testing::missing_device();
  if (!missing.empty() && !testing::GTEST_FLAG(list_tests)) {
    std::cout << "skipped: " << missing << std::endl;
    return 77;
  }
  return RUN_ALL_TESTS();
}
