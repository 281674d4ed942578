// SPDX-License-Identifier: Apache-2.0
#include "launcher/simulate/time_flags.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "launcher/settings/flag_values.h"

namespace lockstep {
namespace {

constexpr std::uintmax_t kMaxFileBytes = 64 << 20;

std::string text_of(const std::string& file) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path path = file;
  if (fs::is_directory(path, error)) path /= "kernel_times.json";
  const std::uintmax_t bytes = fs::file_size(path, error);
  LOCKSTEP_CHECK(
      !error && bytes <= kMaxFileBytes,
      ConfigError,
      "--kernel-times {}: {}: lockstep train --profile --ranks 1 writes such a file into "
      "the folder of its run",
      as_written(file),
      error ? error.message() : "too long for a table of kernels");
  std::ifstream stream(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  LOCKSTEP_CHECK(stream.good() || stream.eof(),
                 ConfigError,
                 "--kernel-times {}: the file cannot be read",
                 as_written(file));
  return text;
}

}  // namespace

void declare_time_flags(CLI::App& app, TimeFlags& flags) {
  app.add_option("--kernel-times",
                 flags.file,
                 "measured times of the program's kernels, in place of --device-rate: "
                 "kernel_times.json, or the folder of a run of one rank with --profile")
      ->type_name("FILE");
  app.add_option("--cores",
                 flags.cores,
                 "of processors: the cores of a host, which its ranks share; 0: each rank has its "
                 "own")
      ->type_name("N")
      ->capture_default_str()
      ->check(whole_number("--cores", 0, 65536));
  app.add_option("--contention",
                 flags.contention,
                 "how many times as long cores take for the same where all of a host work")
      ->type_name("X")
      ->capture_default_str()
      ->check(real_number("--contention", 1, 100));
  app.add_option("--core-turn",
                 flags.turn_us,
                 "microseconds until a rank that has waited for others and shares its core has it "
                 "back")
      ->type_name("US")
      ->capture_default_str()
      ->check(real_number("--core-turn", 0, 1e6));
  app.add_option("--repeats",
                 flags.repeats,
                 "runs by which the interval of a prediction is drawn, where steps differ")
      ->type_name("N")
      ->capture_default_str()
      ->check(whole_number("--repeats", 1, 1000));
}

void resolve_time_flags(TimeFlags& flags, bool rate, bool network, Network& used) {
  if (!flags.file.empty()) {
    LOCKSTEP_CHECK(!rate,
                   ConfigError,
                   "--kernel-times cannot be combined with --device-rate: both say how fast ranks "
                   "compute");
    flags.times = std::make_shared<KernelTimes>(
        parse_kernel_times(text_of(flags.file), "--kernel-times " + flags.file));
    if (!flags.times->gpu && !network) used = shared_memory_network();
  }
  LOCKSTEP_CHECK(flags.cores == 0 || (flags.times && !flags.times->gpu),
                 ConfigError,
                 "--cores {} is of processors: it needs --kernel-times of a run on one",
                 flags.cores);
  LOCKSTEP_CHECK(flags.contention == 1 || flags.cores > 1,
                 ConfigError,
                 "--contention {} is between cores of a host: it needs --cores 2 or more",
                 flags.contention);
  LOCKSTEP_CHECK(flags.turn_us == 0 || flags.cores > 0,
                 ConfigError,
                 "--core-turn {} is of ranks that share cores: it needs --cores",
                 flags.turn_us);
}

void apply(const TimeFlags& flags, simulation::DeviceModel& device) {
  if (!flags.times) return;
  device.times = flags.times;
  device.peaks = flags.times->peaks;
  // The processor has none to hand over; of a device an unknown one is what it is without the file.
  if (!flags.times->gpu || flags.times->launch_s > 0) device.launch_s = flags.times->launch_s;
  device.gpu = flags.times->gpu;
  device.cores = flags.cores;
  device.contention = flags.contention;
  device.turn_s = flags.turn_us * 1e-6;
}

}  // namespace lockstep
