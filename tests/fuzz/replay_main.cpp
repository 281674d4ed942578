// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target without libFuzzer on every file of the folders named on the command line, and
// on its large inputs; where the target has a mutator, also on --mutations N of each file. Fails on
// what a fuzzer would call a finding and on processor time beyond --seconds-per-megabyte (of begun
// megabytes). An empty or missing folder is an error.
#include <algorithm>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/mutation.h"

[[gnu::weak]] std::size_t LLVMFuzzerCustomMutator(std::uint8_t*,
                                                  std::size_t,
                                                  std::size_t,
                                                  unsigned int);

/// In libFuzzer's place: inserts, removes or changes a byte.
std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t bytes, std::size_t max) {
  static lockstep::fuzz::Random random(1);
  const std::size_t at = random.below(bytes);
  const std::size_t kind = bytes == 0 ? 0 : random.below(3);
  if (kind == 0 && bytes < max) {
    std::memmove(data + at + 1, data + at, bytes - at);
    data[at] = std::uint8_t(random.next());
    return bytes + 1;
  }
  if (kind == 1 && bytes > 1) {
    std::memmove(data + at, data + at + 1, bytes - at - 1);
    return bytes - 1;
  }
  if (bytes > 0) data[at] = std::uint8_t(random.next());
  return bytes;
}

namespace {

namespace fs = std::filesystem;
using lockstep::fuzz::finding;

/// Under sanitizers, which are several times slower, nothing is said about time but in ctest's.
double seconds_per_megabyte = 0;
int mutations = 0;

void run_quietly(const std::string& name, const std::string& input) {
  // Of its own size, so that sanitizers see every byte read beyond it.
  std::vector<std::uint8_t> bytes(input.begin(), input.end());
  bytes.shrink_to_fit();
  // Of the processor: what else the machine does is not a finding.
  const std::clock_t start = std::clock();
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  const double took = double(std::clock() - start) / CLOCKS_PER_SEC;
  const double megabytes = double((input.size() + 999'999) / 1'000'000);
  if (seconds_per_megabyte > 0 && took > seconds_per_megabyte * std::max(1.0, megabytes))
    finding(fmt::format("{} took {:.2f} s", name, took));
}

void run(const std::string& name, const std::string& input) {
  std::printf("%s (%zu bytes)\n", name.c_str(), input.size());
  std::fflush(stdout);
  run_quietly(name, input);
}

/// Each mutation is of the one before, so that they move away from the file.
void run_mutations(const std::string& name, const std::string& input) {
  constexpr std::size_t kMaxBytes = 16384;
  if (LLVMFuzzerCustomMutator == nullptr || input.size() > kMaxBytes) return;
  std::vector<std::uint8_t> bytes(input.begin(), input.end());
  for (int i = 0; i < mutations; ++i) {
    std::size_t size = bytes.size();
    bytes.resize(kMaxBytes);
    size = LLVMFuzzerCustomMutator(bytes.data(), size, kMaxBytes, unsigned(i));
    if (size > kMaxBytes) finding("a mutation larger than allowed");
    bytes.resize(size);
    run_quietly(fmt::format("mutation {} of {}", i, name), {bytes.begin(), bytes.end()});
  }
}

int run_folder(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    std::ifstream stream(file, std::ios::binary);
    const std::string input{std::istreambuf_iterator<char>(stream), {}};
    run(file.filename().string(), input);
    run_mutations(file.filename().string(), input);
  }
  return int(files.size());
}

}  // namespace

int main(int count, char** arguments) {
  std::vector<fs::path> folders;  // run when all options are known
  for (int i = 1; i < count; ++i) {
    if (std::strcmp(arguments[i], "--seconds-per-megabyte") == 0 && i + 1 < count)
      seconds_per_megabyte = std::strtod(arguments[++i], nullptr);
    else if (std::strcmp(arguments[i], "--mutations") == 0 && i + 1 < count)
      mutations = std::atoi(arguments[++i]);
    else
      folders.emplace_back(arguments[i]);
  }
  int inputs = 0;
  for (const fs::path& folder : folders) inputs += run_folder(folder);
  if (inputs == 0) finding("no input was found");
  run("nothing", "");
  if (lockstep::fuzz::large_inputs != nullptr)
    for (const std::string& input : lockstep::fuzz::large_inputs()) run("a large input", input);
  std::printf("%d files\n", inputs);
  return 0;
}
