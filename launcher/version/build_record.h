// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// How a library's code comes into the program.
enum class Link {
  linked,   ///< by the linker, shared or static
  headers,  ///< it has headers alone
  opened    ///< a shared library that a process opens when it first needs it
};

/// A library that the program is built with.
struct Dependency {
  std::string name;     ///< "libjpeg-turbo"
  std::string version;  ///< whose headers the compiler read; empty where the build did not find out
  std::string license;  ///< an SPDX expression, or NOASSERTION
  Link link = Link::linked;
  std::string home;   ///< URL, or NOASSERTION
  std::string files;  ///< names of its shared libraries up to ".so", one space between: "libjpeg"
};

/// What CMake knew when it configured the build: equal for two builds of a commit with the same
/// tools and options, in whatever folders.
struct BuildRecord {
  std::string version;  ///< of Lockstep
  std::string commit;   ///< as HostFacts's
  std::string time;     ///< of the commit, or SOURCE_DATE_EPOCH: "2026-01-31T12:00:00Z"
  std::string build_type;
  std::string compiler;  ///< "GNU 12.2.0"
  std::string system;    ///< "Linux x86_64"
  std::string flags;     ///< of the compiler, all sources
  /// Of each instruction set of the CPU loops, its name and further flags.
  std::vector<std::pair<std::string, std::string>> loop_flags;
  std::string mpi_version;   ///< "Open MPI 4.1.4"; empty: built without
  std::string nccl_version;  ///< "2.28.9"; empty: built without
  std::vector<Dependency> dependencies;
};

const BuildRecord& build_record();

}  // namespace lockstep
