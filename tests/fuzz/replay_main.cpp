// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target without libFuzzer on every file of the folders named on the command line, and
// on its large inputs. Fails on what a fuzzer would call a finding and on processor time beyond
// --seconds-per-megabyte (of begun megabytes). An empty or missing folder is an error.
#include <algorithm>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/fuzz/fuzz_target.h"

namespace {

namespace fs = std::filesystem;
using lockstep::fuzz::finding;

/// Under sanitizers, which are several times slower, nothing is said about time but in ctest's.
double seconds_per_megabyte = 0;

void run(const std::string& name, const std::string& input) {
  std::printf("%s (%zu bytes)\n", name.c_str(), input.size());
  std::fflush(stdout);
  // Of its own size, so that sanitizers see every byte read beyond it.
  std::vector<std::uint8_t> bytes(input.begin(), input.end());
  bytes.shrink_to_fit();
  // Of the processor: what else the machine does is no finding.
  const std::clock_t start = std::clock();
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  const double took = double(std::clock() - start) / CLOCKS_PER_SEC;
  const double megabytes = double((input.size() + 999'999) / 1'000'000);
  if (seconds_per_megabyte > 0 && took > seconds_per_megabyte * std::max(1.0, megabytes))
    finding(fmt::format("{} took {:.2f} s", name, took));
}

int run_folder(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    std::ifstream stream(file, std::ios::binary);
    run(file.filename().string(), {std::istreambuf_iterator<char>(stream), {}});
  }
  return int(files.size());
}

}  // namespace

int main(int count, char** arguments) {
  int inputs = 0;
  for (int i = 1; i < count; ++i) {
    if (std::strcmp(arguments[i], "--seconds-per-megabyte") == 0 && i + 1 < count)
      seconds_per_megabyte = std::strtod(arguments[++i], nullptr);
    else
      inputs += run_folder(arguments[i]);
  }
  if (inputs == 0) finding("no input was found");
  run("nothing", "");
  if (lockstep::fuzz::large_inputs != nullptr)
    for (const std::string& input : lockstep::fuzz::large_inputs()) run("a large input", input);
  std::printf("%d files\n", inputs);
  return 0;
}
