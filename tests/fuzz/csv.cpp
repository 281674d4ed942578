// SPDX-License-Identifier: Apache-2.0
// Tables, with and without a validation part.
#include "core/data/csv_table.h"
#include "core/data/sources.h"
#include "tests/fuzz/input_file.h"
#include "tests/fuzz/load_samples.h"

using namespace lockstep;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  static const fuzz::InputFile file;
  file.write(data, bytes);
  fuzz::run_parser(bytes, [&] {
    const data::CsvTable table = data::read_csv(file.path());
    fuzz::require(std::int64_t(table.values.size()) == table.rows * table.features &&
                      std::int64_t(table.labels.size()) == table.rows,
                  "more or fewer values than rows and features");
    for (const std::int32_t label : table.labels)
      fuzz::require(label >= 0 && label < std::int32_t(table.classes.size()), "no such class");
  });
  for (const double share : {0.0, 0.5})
    fuzz::run_parser(bytes, [&] { fuzz::load_samples(data::csv(file.path(), share, bytes)); });
  return 0;
}

namespace lockstep::fuzz {

std::vector<std::string> large_inputs() {
  constexpr std::size_t kBytes = 4'000'000;
  std::string classes = "x,y\n";
  for (int i = 0; classes.size() < kBytes; ++i) classes += fmt::format("1,a{}\n", i);
  return {"x,y\n" + repeated("1,a\n1,b\n", kBytes),
          repeated("a,", kBytes / 2) + "y\n" + repeated("1,", kBytes / 2) + "a",
          "x,y\n\"" + repeated("\"\"", kBytes) + "\",1",
          classes};
}

}  // namespace lockstep::fuzz
