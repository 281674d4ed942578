// SPDX-License-Identifier: Apache-2.0
#include "core/step/dump.h"

#include <filesystem>
#include <fmt/ranges.h>
#include <fstream>

#include "core/base/check.h"

namespace lockstep {
namespace {

void write(const std::string& folder, const std::string& name, const std::string& text) {
  const std::filesystem::path file = std::filesystem::path(folder) / name;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  std::ofstream out(file);
  out << text;
  out.close();
  LOCKSTEP_CHECK(
      !error && out, EnvironmentError, "LOCKSTEP_DUMP: {} cannot be written", file.string());
}

}  // namespace

void dump_program(const std::string& folder, const std::string& name, const Program& program) {
  write(folder, name + ".graph.txt", to_text(program.graph()));
  write(folder, name + ".plan.txt", to_text(program.plan()));
  if (!program.graph().notes().empty())
    write(folder,
          name + ".fusions.txt",
          fmt::format("{}\n", fmt::join(program.graph().notes(), "\n")));
}

void dump_flat_space(const std::string& folder, const FlatSpace& space, const Graph& graph) {
  write(folder, "flat_space.txt", to_text(space, graph));
}

}  // namespace lockstep
