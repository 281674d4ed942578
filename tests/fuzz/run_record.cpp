// SPDX-License-Identifier: Apache-2.0
// A run's folder as `lockstep report` reads it, and the page that comes of it. The input is several
// files, one after the other: "%%metrics.jsonl\n...%%summary.json\n...". After "%%second\n" come
// those of another run that is compared with it.
#include "launcher/report/run_record.h"

#include <filesystem>
#include <fstream>
#include <vector>

#include "launcher/report/page.h"
#include "tests/fuzz/input_file.h"

using namespace lockstep;

namespace {

constexpr const char* kFiles[] = {"metrics.jsonl",
                                  "summary.json",
                                  "config.toml",
                                  "environment.json",
                                  "history.jsonl",
                                  "memory.json"};

void write_folder(const std::filesystem::path& folder, std::string_view text) {
  for (const char* name : kFiles) {
    const std::string mark = std::string("%%") + name + "\n";
    const std::size_t from = text.find(mark);
    std::filesystem::remove(folder / name);
    if (from == std::string_view::npos) continue;
    const std::string_view rest = text.substr(from + mark.size());
    std::ofstream(folder / name, std::ios::binary) << rest.substr(0, rest.find("%%"));
  }
}

void check_page(const std::vector<report::RunRecord>& runs, std::size_t bytes) {
  const std::string page = report::page_of(runs);
  fuzz::require(page.ends_with("</html>\n"), "the page is not whole");
  const std::size_t data = page.find("type=\"application/json\">");
  fuzz::require(page.find('<', data) == page.find("</script>", data), "text became an element");
  fuzz::require(page.size() < runs.size() * 2'000'000 + 20 * bytes, "the page is too large");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  static const fuzz::InputFolder first, second;
  constexpr std::string_view kSecond = "%%second\n";
  const std::string_view text = fuzz::as_text(data, bytes);
  const std::size_t end = text.find(kSecond);
  const bool two = end != std::string_view::npos;
  write_folder(first.path(), text.substr(0, end));
  if (two) write_folder(second.path(), text.substr(end + kSecond.size()));
  fuzz::run_parser(bytes, [&] {
    std::vector<report::RunRecord> runs;
    runs.push_back(report::read_run(first.path().string()));
    if (two) runs.push_back(report::read_run(second.path().string()));
    check_page(runs, bytes);
  });
  return 0;
}

namespace lockstep::fuzz {

std::string settings(int count, int value) {
  std::string text = "%%metrics.jsonl\n%%config.toml\n";
  for (int i = 0; i < count; ++i) text += fmt::format("k{}={}\n", i, value);
  return text;
}

std::vector<std::string> large_inputs() {
  constexpr std::size_t kBytes = 8'000'000;
  std::string rising = "%%metrics.jsonl\n";
  for (int step = 1; rising.size() < kBytes; ++step)
    rising += fmt::format("{{\"step\":{},\"loss\":1}}\n", step);
  return {rising,
          settings(90'000, 1) + "%%second\n" + settings(90'000, 2),
          settings(900'000, 1) + "%%second\n" + settings(900'000, 2),
          "%%metrics.jsonl\n" + repeated("[", kBytes),
          "%%metrics.jsonl\n" + repeated("{\"step\":1,\"skipped_step\":\"<\"}\n", kBytes),
          "%%metrics.jsonl\n%%summary.json\n{\"ledger\":[" + repeated("{},", kBytes) + "{}]}",
          "%%metrics.jsonl\n%%memory.json\n{\"live_bytes\":[" + repeated("1,", kBytes) + "1]}",
          "%%metrics.jsonl\n%%history.jsonl\n" + repeated("{\"step\":1}\n", kBytes),
          "%%metrics.jsonl\n%%summary.json\n{\"a\":\"" + repeated("<", kBytes) + "\"}"};
}

}  // namespace lockstep::fuzz
