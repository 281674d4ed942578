// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <sys/resource.h>

namespace lockstep::testing {

/// Between set() and lift() no file of this process may grow beyond so many bytes, as where a disk
/// or memory is full for it alone.
class FileLimit {
 public:
  FileLimit() {
    ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
  }
  ~FileLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }
  void set(rlim_t bytes) const {
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  void lift() const { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

}  // namespace lockstep::testing
