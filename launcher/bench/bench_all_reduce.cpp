// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>

#include "core/base/check.h"
#include "core/base/median.h"
#include "core/base/text/number_format.h"
#include "core/exec/agreement.h"
#include "core/exec/backend.h"
#include "core/exec/gather_records.h"
#include "core/host/cores.h"
#include "launcher/bench/bench.h"
#include "launcher/settings/flag_values.h"
#include "parallel/batch/schedule.h"
#include "parallel/exchange/gradient_exchange.h"
#include "parallel/session/device_choice.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

struct AllReduceFlags {
  std::int64_t least = 1024, most = 64 << 20, factor = 4;
  double bucket_mb = 0, seconds = 0.3;  ///< 0: the device's own
  int ranks = 0;
  std::string device = "auto";
  bool json = false;
};

struct Timing {
  double seconds = 0;
  std::int64_t wrong = 0;  ///< sums that were not as expected, of all ranks
};

struct SizeRow {
  std::int64_t bytes = 0;
  Timing reproducible, library;
};

std::int64_t bytes_of(const std::string& flag, const std::string& text) {
  const std::uint64_t bytes = to_bytes(text);
  LOCKSTEP_CHECK(bytes >= sizeof(float) && bytes <= std::uint64_t{1} << 40,
                 ConfigError,
                 "{}: between 4 bytes and 1 TiB, got {}",
                 flag,
                 text);
  return std::int64_t(bytes) / std::int64_t(sizeof(float)) * std::int64_t(sizeof(float));
}

bool parse(const std::vector<std::string>& arguments, AllReduceFlags& flags) {
  CLI::App app(
      "Times the gradient exchange by size: the reproducible one, and the library's all-reduce "
      "(--reduction fast). Bandwidths as nccl-tests define them: algorithm = bytes / time, bus = "
      "algorithm * 2 (ranks - 1) / ranks.",
      "lockstep bench all-reduce");
  std::string least = "1KiB", most = "64MiB", ranks = "auto", bucket_mb = "auto";
  app.add_option("--min", least, "smallest size")
      ->type_name("BYTES")
      ->capture_default_str()
      ->check(byte_size("--min"));
  app.add_option("--max", most, "largest size")
      ->type_name("BYTES")
      ->capture_default_str()
      ->check(byte_size("--max"));
  app.add_option("--factor", flags.factor, "from a size to the next")
      ->type_name("N")
      ->capture_default_str()
      ->check(whole_number("--factor", 2, 1024));
  app.add_option("--bucket-mb", bucket_mb, "MiB that travel as one message; auto: 4, on GPUs 64")
      ->type_name("auto|MIB")
      ->capture_default_str()
      ->check(real_number_or("--bucket-mb", "auto", 1e-3, 4096));
  app.add_option("--seconds", flags.seconds, "for each size and reduction")
      ->type_name("S")
      ->capture_default_str()
      ->check(real_number("--seconds", 1e-3, 3600));
  app.add_option("--ranks", ranks, "to start where no launcher did; auto: one a core or GPU")
      ->type_name("auto|N")
      ->capture_default_str()
      ->check(whole_number_or("--ranks", "auto", 1, 65536));
  app.add_option("--device", flags.device, "where the sums lie")
      ->type_name("auto|cpu|cuda")
      ->capture_default_str()
      ->check(one_of("--device", {"auto", "cpu", "cuda"}));
  app.add_flag("--json", flags.json, "one JSON object instead of a table");
  if (parse_bench(app, arguments)) return false;
  flags.least = bytes_of("--min", least);
  flags.most = bytes_of("--max", most);
  LOCKSTEP_CHECK(
      flags.least <= flags.most, ConfigError, "--min {} is larger than --max {}", least, most);
  flags.ranks = int(to_whole_number(ranks));
  flags.bucket_mb = to_real_number(bucket_mb);
  return true;
}

/// One size and reduction.
class TimedExchange {
 public:
  TimedExchange(Job& job, const AllReduceFlags& flags, std::int64_t bytes, Reduction reduction)
      : job_(job),
        device_(job.backend()),
        elems_(bytes / std::int64_t(sizeof(float))),
        data_(device_.allocate(std::size_t(bytes), "sums to be measured")),
        schedule_(make_schedule({job.size(), 1, job.size(), job.size(), 1}, job.rank())),
        exchange_(device_,
                  job.communicator(),
                  reduction,
                  buckets(flags),
                  data_->as<float>(),
                  job.size()) {}

  Timing run(double seconds) {
    Timing timing{.wrong = wrong_sums()};
    fill([](std::int64_t) { return 0.0f; });  // whose sums never grow
    once();
    const double first = slowest(1);
    const int repeats = int(std::clamp(kRoundSeconds / first, 1.0, 1000.0));
    std::vector<double> rounds;
    for (double spent = 0; spent < seconds || rounds.size() < kMinRounds;) {
      rounds.push_back(slowest(repeats));
      spent += rounds.back() * repeats;
    }
    timing.seconds = median_of(std::move(rounds));
    return timing;
  }

 private:
  static constexpr double kRoundSeconds = 2e-3;  // far above the clock's own cost
  static constexpr std::size_t kMinRounds = 5;

  std::vector<Bucket> buckets(const AllReduceFlags& flags) const {
    const std::int64_t bytes = flags.bucket_mb == 0 ? device_.traits().bucket_bytes
                                                    : std::int64_t(flags.bucket_mb * (1 << 20));
    const auto most = std::max<std::int64_t>(1, bytes / std::int64_t(sizeof(float)));
    std::vector<Bucket> result;
    for (std::int64_t at = 0; at < elems_; at += most)
      result.push_back({at, std::min(most, elems_ - at)});
    return result;
  }

  template <typename Value>
  void fill(const Value& value) {
    std::vector<float> host(std::size_t(elems_), 0);
    for (std::int64_t i = 0; i < elems_; ++i) host[std::size_t(i)] = value(i);
    device_.copy_to_device(data_->data(), host.data(), host.size() * sizeof(float));
  }

  void once() {
    exchange_.begin_step(schedule_);
    for (int b = 0; b < exchange_.bucket_count(); ++b) exchange_.start_bucket(b);
    for (int b = 0; b < exchange_.bucket_count(); ++b) exchange_.finish_bucket(b);
    device_.synchronize();
  }

  /// Small whole numbers, whose sums are exact in any order.
  static float number(int rank, std::int64_t i) { return float((std::int64_t{rank} * 7 + i) % 13); }

  std::int64_t wrong_sums() {
    fill([&](std::int64_t i) { return number(job_.rank(), i); });
    once();
    std::vector<float> sums(std::size_t(elems_), 0);
    device_.copy_to_host(sums.data(), data_->data(), sums.size() * sizeof(float));
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < elems_; ++i) {
      float expected = 0;
      for (int rank = 0; rank < job_.size(); ++rank) expected += number(rank, i);
      wrong += sums[std::size_t(i)] != expected;
    }
    double all = 0;
    for (const double own : gather_records(job_.host_communicator(), double(wrong))) all += own;
    return std::int64_t(all);
  }

  /// Seconds of one exchange among `repeats`, on the slowest rank: equal on all.
  double slowest(int repeats) {
    job_.host_communicator().barrier();
    const auto begin = Clock::now();
    for (int i = 0; i < repeats; ++i) once();
    const double own = std::chrono::duration<double>(Clock::now() - begin).count() / repeats;
    return largest(job_.host_communicator(), own);
  }

  Job& job_;
  Backend& device_;
  std::int64_t elems_;
  std::unique_ptr<DeviceBuffer> data_;
  Schedule schedule_;
  GradientExchange exchange_;
};

struct Bandwidth {
  double algorithm = 0, bus = 0;  ///< GB/s
};
Bandwidth bandwidth(const SizeRow& row, const Timing& timing, int ranks) {
  const double algorithm = double(row.bytes) / timing.seconds * 1e-9;
  return {algorithm, algorithm * 2 * (ranks - 1) / ranks};
}

void print_table(const std::vector<SizeRow>& rows, Job& job) {
  std::string text =
      fmt::format("all-reduce of float sums on {} rank{}, {}\n\n  {:>10}  {:^37}  {:^37}\n  {:>10}",
                  job.size(),
                  job.size() == 1 ? "" : "s",
                  job.backend().device_class(),
                  "",
                  "reproducible",
                  "library's",
                  "bytes");
  for (int i = 0; i < 2; ++i)
    text += fmt::format("  {:>10} {:>9} {:>9} {:>6}", "us", "alg GB/s", "bus GB/s", "wrong");
  text += "\n";
  for (const SizeRow& row : rows) {
    text += fmt::format("  {:>10}", row.bytes);
    for (const Timing& timing : {row.reproducible, row.library}) {
      const Bandwidth rate = bandwidth(row, timing, job.size());
      text += fmt::format("  {:>10.2f} {:>9.3f} {:>9.3f} {:>6}",
                          timing.seconds * 1e6,
                          rate.algorithm,
                          rate.bus,
                          timing.wrong);
    }
    text += "\n";
  }
  std::cout << text << std::flush;
}

void print_json(const std::vector<SizeRow>& rows, const AllReduceFlags& flags, Job& job) {
  using Json = nlohmann::ordered_json;
  const auto json_of = [&](const SizeRow& row, const Timing& timing) {
    const Bandwidth rate = bandwidth(row, timing, job.size());
    return Json{{"time_us", timing.seconds * 1e6},
                {"algbw_GBps", rate.algorithm},
                {"busbw_GBps", rate.bus},
                {"wrong", timing.wrong}};
  };
  Json sizes = Json::array();
  for (const SizeRow& row : rows)
    sizes.push_back({{"bytes", row.bytes},
                     {"reproducible", json_of(row, row.reproducible)},
                     {"library", json_of(row, row.library)}});
  const Json json{{"ranks", job.size()},
                  {"device", job.backend().device_class()},
                  {"bucket_mb",
                   flags.bucket_mb == 0 ? double(job.backend().traits().bucket_bytes) / (1 << 20)
                                        : flags.bucket_mb},
                  {"sizes", std::move(sizes)}};
  std::cout << json.dump(2) << std::endl;
}

void measure(Job& job, const AllReduceFlags& flags) {
  std::vector<SizeRow> rows;
  for (std::int64_t bytes = flags.least;; bytes = std::min(bytes * flags.factor, flags.most)) {
    SizeRow row{.bytes = bytes, .reproducible = {}, .library = {}};
    row.reproducible = TimedExchange(job, flags, bytes, Reduction::reproducible).run(flags.seconds);
    row.library = TimedExchange(job, flags, bytes, Reduction::fast).run(flags.seconds);
    rows.push_back(row);
    if (bytes == flags.most) break;
  }
  if (job.rank() == 0) {
    if (flags.json)
      print_json(rows, flags, job);
    else
      print_table(rows, job);
  }
  for (const SizeRow& row : rows)
    LOCKSTEP_CHECK(row.reproducible.wrong + row.library.wrong == 0,
                   InternalError,
                   "all-reduce of {}: {} wrong sums",
                   format_bytes(double(row.bytes)),
                   row.reproducible.wrong + row.library.wrong);
}

}  // namespace

int bench_all_reduce(const std::vector<std::string>& arguments) {
  AllReduceFlags flags;
  if (!parse({arguments.begin() + 1, arguments.end()}, flags)) return 0;
  // The ranks of a batch that has one sample for each.
  TrainFlags ranks;
  ranks.device = flags.device;
  ranks.ranks = flags.ranks;
  const int gpus = usable_gpus(flags.device);
  const int devices = gpus > 0 ? gpus : available_cores().count;
  ranks.options.global_batch = std::max(flags.ranks, devices);
  ranks.options.micro_batch = 1;
  ranks.options.shards = int(ranks.options.global_batch);
  return run_bench(ranks, arguments, flags.json, [&](Job& job) { measure(job, flags); });
}

}  // namespace lockstep
