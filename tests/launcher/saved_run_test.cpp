// SPDX-License-Identifier: Apache-2.0
// What commands that use a saved run say of its kernels.
#include "launcher/predict/saved_run.h"

#include <gmock/gmock.h>

#include "core/exec/dry_backend.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class SlowBackend final : public DryBackend {
 public:
  std::vector<std::string> notices() const override {
    return {"conv2d stem: far slower", "conv2d head: far slower too"};
  }
};

template <typename Device>
std::string warnings_of(const Device& device) {
  ::testing::internal::CaptureStderr();
  warn_of_slow_operators(device);
  return ::testing::internal::GetCapturedStderr();
}

TEST(SavedRun, WarnsOfSlowOperators) {
  EXPECT_THAT(warnings_of(SlowBackend()),
              AllOf(HasSubstr("warning: conv2d stem: far slower\n"),
                    HasSubstr("warning: conv2d head: far slower too\n")));
  EXPECT_EQ(warnings_of(DryBackend()), "");
}

}  // namespace
}  // namespace lockstep
