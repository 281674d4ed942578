// SPDX-License-Identifier: Apache-2.0
#include "launcher/segment_folder.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace lockstep {
namespace {
constexpr const char* kVariable = "OMPI_MCA_btl_vader_backing_directory";
}

SegmentFolder::SegmentFolder(ChildPlan& child) {
  if (std::getenv(kVariable) != nullptr) return;
  std::string path = "/dev/shm/lockstep-XXXXXX";
  if (mkdtemp(path.data()) == nullptr) return;
  path_ = path;
  child.variables[kVariable] = path_;
}

SegmentFolder::~SegmentFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace lockstep
