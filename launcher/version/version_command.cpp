// SPDX-License-Identifier: Apache-2.0
#include "launcher/version/version_command.h"

#include <CLI/CLI.hpp>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>

#include "kernels/cpu/bf16_products.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/matrix_library.h"
#include "kernels/cuda/device/cuda_build.h"
#include "launcher/gpu_monitor/nvidia_library.h"
#include "launcher/processes/host_facts.h"
#include "launcher/settings/command_line.h"
#include "launcher/version/build_record.h"
#include "launcher/version/sbom.h"
#include "lockstep/error.h"
#include "parallel/comm/nccl/nccl_communicator.h"
#include "parallel/session/loaded_libraries.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

Json build_json(const BuildRecord& record) {
  return {{"version", record.version},
          {"commit", record.commit},
          {"commit_time", record.time},
          {"build_type", record.build_type},
          {"compiler", record.compiler},
          {"system", record.system},
          {"flags", record.flags}};
}

/// Sets `json[name]` to what `ask` returns; where the machine lacks it, "error" to why.
void find_out(Json& json, const char* name, const std::function<std::string()>& ask) {
  try {
    json[name] = ask();
  } catch (const std::exception& error) {
    json["error"] = error.what();
  }
}

Json cpu_json(const BuildRecord& record) {
  Json json{{"library", cpu::matrix_library()}};
  for (const auto& [isa, flags] : record.loop_flags) json["instruction_sets"][isa] = flags;
  find_out(json, "used", [] { return std::string(name_of(cpu::isa())); });
  find_out(json, "bf16_products", [] { return std::string(name_of(cpu::bf16_products())); });
  return json;
}

/// Opens what a run on a GPU would open, so that it is among the loaded libraries.
Json cuda_json() {
  const CudaFacts facts = cuda_build();
  Json json{{"built", facts.absent_because.empty()}};
  if (!facts.absent_because.empty()) {
    json["because"] = facts.absent_because;
    return json;
  }
  json["runtime"] =
      fmt::format("{}.{}", facts.runtime_version / 1000, facts.runtime_version % 1000 / 10);
  json["architectures"] = facts.architectures;
  NvidiaLibrary("", "libcuda.so.1");  // stays open
  CudaLibraries found;
  find_out(json, "found", [&] {
    found = cuda_libraries();
    return found.versions;
  });
  for (const CudaLibrary& library : found.files) {
    Json& entry = json["libraries"][library.name];
    if (!library.version.empty()) entry["version"] = library.version;
    if (!library.file.empty())
      entry["file"] = library.file;
    else
      entry["error"] = library.absent_because;
  }
  return json;
}

Json backends_json(const BuildRecord& record) {
  Json mpi{{"built", !record.mpi_version.empty()}}, nccl{{"built", !record.nccl_version.empty()}};
  if (!record.mpi_version.empty()) mpi["headers"] = record.mpi_version;
  if (!record.nccl_version.empty()) {
    nccl["headers"] = record.nccl_version;
    find_out(nccl, "found", nccl_version);
    if (nccl.contains("found")) find_out(nccl, "file", nccl_file);
  }
  return {{"cpu", cpu_json(record)}, {"cuda", cuda_json()}, {"mpi", mpi}, {"nccl", nccl}};
}

Json libraries_json(const BuildRecord& record, const std::vector<LoadedLibrary>& loaded) {
  Json list = Json::array();
  for (const LoadedLibrary& library : loaded) {
    Json json{{"name", library.name}, {"file", library.file}};
    if (!library.version.empty()) json["version"] = library.version;
    if (const Dependency* const package = dependency_of(record, library))
      json["package"] = package->name;
    list.push_back(json);
  }
  return list;
}

Json everything() {
  const BuildRecord& record = build_record();
  Json backends = backends_json(record);
  const std::vector<LoadedLibrary> loaded = loaded_libraries();
  return {{"lockstep", build_json(record)},
          {"backends", backends},
          {"libraries", libraries_json(record, loaded)},
          {"sbom", sbom(record, loaded)}};
}

}  // namespace

int version_command(const std::vector<std::string>& arguments) {
  CLI::App app("Prints the version of the program.", "lockstep --version");
  bool json = false;
  app.add_flag(
      "--json",
      json,
      "prints one JSON object: the build, the libraries it has loaded, and an SBOM (SPDX)");
  if (print_help(parse_command_line(app, arguments))) return 0;
  if (json)
    std::cout << everything().dump(2, ' ', false, Json::error_handler_t::replace) << std::endl;
  else
    std::cout << "lockstep " << lockstep_version() << std::endl;
  return 0;
}

}  // namespace lockstep
