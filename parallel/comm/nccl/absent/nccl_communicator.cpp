// SPDX-License-Identifier: Apache-2.0
// The placeholder for NCCL where the build did not find its header.
#include "parallel/comm/nccl/nccl_communicator.h"

#include "lockstep/error.h"

namespace lockstep {

bool has_nccl() { return false; }

void set_nccl_variables(std::optional<int>) {}

std::unique_ptr<Communicator> make_nccl_communicator(Communicator&, Backend&, const NcclOptions&) {
  throw EnvironmentError(
      "NCCL: not built into this program, as the build found no nccl.h, or no CUDA backend to go "
      "with it",
      "install NCCL 2.26 or later for the CUDA toolkit that this is built with (pip install "
      "nvidia-nccl-cu12 or -cu13, or apt-get install libnccl-dev), and build again; "
      "-DNCCL_INCLUDE_DIR=... names the folder of its nccl.h where it is not found");
}

void fail_nccl_communicators(const std::string&) {}
bool nccl_abort_hangs() { return false; }

std::string nccl_version() { return {}; }

std::string nccl_file() { return {}; }

}  // namespace lockstep
