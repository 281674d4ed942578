// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "core/base/check.h"
#include "tests/support/mpi_world.h"

namespace lockstep::testing {

/// A folder that all ranks see, removed at the end.
class SharedFolder {
 public:
  SharedFolder() {
    Communicator& world = mpi_world();
    std::array<char, 64> name{"/tmp/lockstep-shared-XXXXXX"};
    if (world.rank() == 0) LOCKSTEP_ASSERT(mkdtemp(name.data()) != nullptr);
    world.broadcast(name.data(), name.size(), 0);
    path_ = name.data();
  }
  ~SharedFolder() {
    mpi_world().barrier();
    std::error_code ignored;
    if (mpi_world().rank() == 0) std::filesystem::remove_all(path_, ignored);
  }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace lockstep::testing
