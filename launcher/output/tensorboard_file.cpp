// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/tensorboard_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <initializer_list>
#include <unistd.h>
#include <utility>

#include "core/base/check.h"
#include "core/base/text/utf8.h"
#include "core/host/machine.h"
#include "core/io/folder.h"
#include "core/io/record_file.h"
#include "tensorboard.pb.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kEventFile = "events.out.tfevents.";

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::int64_t seconds_in_name(const std::string& name) {
  std::int64_t seconds = 0;
  if (name.starts_with(kEventFile))
    std::from_chars(name.data() + kEventFile.size(), name.data() + name.size(), seconds);
  return seconds;
}

/// Readers take a folder's files in the order of their names: a new one must come after those that
/// are there, also within a second and where clocks of hosts differ.
std::string name_behind_all_in(const std::string& folder) {
  auto seconds = std::int64_t(seconds_since_1970());
  for (const std::string& name : io::names_in(folder))
    seconds = std::max(seconds, seconds_in_name(name) + 1);
  std::string host = host_name();
  std::ranges::replace(host, '/', '_');
  return fmt::format("{}/{}{:010}.{}.{}.0", folder, kEventFile, seconds, host, getpid());
}

/// `ledger/data_ms`, ... of TimePart and DevicePart.
template <typename Part, std::size_t kParts>
std::array<std::string, kParts> part_tags(std::string_view group) {
  std::array<std::string, kParts> tags;
  for (std::size_t part = 0; part < kParts; ++part)
    tags[part] = fmt::format("{}/{}_ms", group, name_of(Part(part)));
  return tags;
}

void add_chart(tensorboard::Category& category,
               const char* title,
               std::initializer_list<const char*> tags) {
  tensorboard::Chart& chart = *category.add_chart();
  chart.set_title(title);
  for (const char* tag : tags) chart.mutable_multiline()->add_tag(tag);
}

void fill_layout(tensorboard::Layout& layout) {
  tensorboard::Category& learning = *layout.add_category();
  learning.set_title("learning");
  add_chart(learning, "loss", {"^train/loss$", "^val/loss$"});
  add_chart(learning, "accuracy", {"^train/accuracy$", "^val/accuracy$"});
  tensorboard::Category& speed = *layout.add_category();
  speed.set_title("speed");
  add_chart(speed, "parts of a step, ms", {"^ledger/(?!step_ms)"});
}

void fill_experiment(tensorboard::Experiment& experiment, const HyperParameters& set_to) {
  constexpr int kString = 1, kFloat = 3;
  for (const HyperParameter& parameter : set_to) {
    tensorboard::HyperInfo& info = *experiment.add_hparam_infos();
    info.set_name(parameter.name);
    info.set_type(parameter.is_number ? kFloat : kString);
  }
  for (const char* tag : {"val/loss", "val/accuracy", "train/loss", "speed/samples_per_s"})
    experiment.add_metric_infos()->mutable_name()->set_tag(tag);
}

void fill_start(tensorboard::SessionStart& start, const HyperParameters& set_to) {
  for (const auto& [name, value, is_number] : set_to) {
    if (std::holds_alternative<std::monostate>(value)) continue;
    tensorboard::HyperEntry& entry = *start.add_hparams();
    entry.set_key(name);
    if (const double* const number = std::get_if<double>(&value)) {
      entry.mutable_value()->set_number_value(*number);
    } else {
      // A string of protobuf is UTF-8, which the name of a file need not be.
      entry.mutable_value()->set_string_value(to_valid_utf8(std::get<std::string>(value)));
    }
  }
  start.set_start_time_secs(seconds_since_1970());
}

}  // namespace

class TensorboardFile::Writer {
 public:
  explicit Writer(const std::string& file) : file_(file) {
    begin(0);
    event_->set_file_version("brain.Event:2");
    end();
  }

  /// Readers drop what they know of `step` and later ones.
  void drop_from(std::int64_t step) {
    begin(step);
    event_->mutable_session_log()->set_status(tensorboard::SessionLog::START);
    end();
  }
  void begin(std::int64_t step) {
    event_.begin();
    event_->set_wall_time(seconds_since_1970());
    event_->set_step(step);
  }
  void scalar(const char* tag, double value) {
    tensorboard::Scalar& scalar = *event_->mutable_summary()->add_value();
    scalar.set_tag(tag);
    scalar.set_simple_value(float(value));
  }
  /// Where negative stands for "not computed".
  void known_scalar(const char* tag, double value) {
    if (!(value < 0)) scalar(tag, value);
  }
  /// Where NaN stands for "not said".
  void said_scalar(const char* tag, double value) {
    if (!std::isnan(value)) scalar(tag, value);
  }
  /// What the HParams and Custom Scalars tabs show of the run.
  void describe(const HyperParameters& set_to) {
    constexpr int kStrings = 7;
    begin(0);
    tensorboard::Scalar& layout = *event_->mutable_summary()->add_value();
    layout.set_tag("custom_scalars__config__");
    layout.mutable_metadata()->mutable_plugin_data()->set_plugin_name("custom_scalars");
    layout.mutable_tensor()->set_dtype(kStrings);
    layout.mutable_tensor()->mutable_tensor_shape();
    fill_layout(*layout.mutable_tensor()->add_string_val());
    fill_experiment(*add_hyper("_hparams_/experiment").mutable_experiment(), set_to);
    fill_start(*add_hyper("_hparams_/session_start_info").mutable_session_start_info(), set_to);
    end();
  }
  void say_ended() {
    constexpr int kSuccess = 1;
    begin(0);
    tensorboard::SessionEnd& info =
        *add_hyper("_hparams_/session_end_info").mutable_session_end_info();
    info.set_status(kSuccess);
    info.set_end_time_secs(seconds_since_1970());
    end();
  }
  void end() {
    event_->SerializeToString(&bytes_);
    event_.end();
    file_.add(bytes_);
  }
  void flush() { file_.flush(); }
  std::string finish() {
    file_.close();
    return file_.error();
  }

 private:
  /// The message that events are filled into. Those of protobuf 3.21 do not survive an allocation
  /// that fails meanwhile, not even to be deleted: such a one is given up, with its memory.
  class FilledEvent {
   public:
    FilledEvent() = default;
    ~FilledEvent() {
      if (filling_) (void)event_.release();
    }
    FilledEvent(const FilledEvent&) = delete;
    FilledEvent& operator=(const FilledEvent&) = delete;

    void begin() {
      LOCKSTEP_ASSERT(!filling_);
      event_->Clear();
      filling_ = true;
    }
    void end() { filling_ = false; }
    tensorboard::Event* operator->() { return event_.get(); }

   private:
    std::unique_ptr<tensorboard::Event> event_ = std::make_unique<tensorboard::Event>();
    bool filling_ = false;
  };

  tensorboard::Hyper& add_hyper(const char* tag) {
    tensorboard::Scalar& value = *event_->mutable_summary()->add_value();
    value.set_tag(tag);
    tensorboard::Plugin& plugin = *value.mutable_metadata()->mutable_plugin_data();
    plugin.set_plugin_name("hparams");
    return *plugin.mutable_content();
  }

  io::RecordFile file_;
  FilledEvent event_;
  std::string bytes_;
};

TensorboardFile::TensorboardFile(std::string folder, HyperParameters set_to)
    : folder_(std::move(folder)), set_to_(std::move(set_to)) {}
TensorboardFile::~TensorboardFile() = default;

void TensorboardFile::on_start(const ResumeRecord* resumed) {
  std::error_code error;
  fs::create_directory(folder_, error);
  try {
    writer_ = std::make_unique<Writer>(name_behind_all_in(folder_));
  } catch (const Error& unreadable) {
    error_ = unreadable.what();
    return;
  }
  if (resumed != nullptr) writer_->drop_from(resumed->step + 1);
  writer_->describe(set_to_);
}

void TensorboardFile::on_step(const StepRecord& record) {
  if (!writer_) return;
  Writer& to = *writer_;
  to.begin(record.step);
  to.scalar("train/loss", record.loss);
  to.known_scalar("train/accuracy", record.accuracy);
  to.known_scalar("train/grad_norm", record.grad_norm);
  to.scalar("train/lr", record.lr);
  to.scalar("train/epoch", record.epoch);
  to.scalar("speed/samples_per_s", record.samples_per_s);
  to.scalar("speed/loader_samples_per_s", record.loader_samples_per_s);
  to.scalar("ledger/step_ms", record.step_ms.total);
  static const auto tags = part_tags<TimePart, kTimeParts>("ledger");
  for (std::size_t part = 0; part < kTimeParts; ++part)
    to.scalar(tags[part].c_str(), record.step_ms.parts[part]);
  static const auto device_tags = part_tags<DevicePart, kDeviceParts>("device");
  for (std::size_t part = 0; record.device_ms && part < kDeviceParts; ++part)
    to.scalar(device_tags[part].c_str(), record.device_ms->parts[part]);
  if (record.noise_scale) to.scalar("noise_scale/samples", *record.noise_scale);
  if (record.gpu) {
    const GpuValues& gpu = record.gpu->values;
    to.said_scalar("gpu/busy", gpu[GpuQuantity::busy]);
    to.said_scalar("gpu/bus_busy", gpu[GpuQuantity::bus_busy]);
    to.said_scalar("gpu/memory_bytes", gpu[GpuQuantity::memory_bytes]);
    to.said_scalar("gpu/power_w", gpu[GpuQuantity::power_w]);
    to.said_scalar("gpu/clock_mhz", gpu[GpuQuantity::clock_mhz]);
  }
  to.end();
}

void TensorboardFile::on_evaluation(const EvaluationRecord& record) {
  if (!writer_) return;
  writer_->begin(record.step);
  writer_->scalar("val/loss", record.val_loss);
  writer_->known_scalar("val/accuracy", record.val_accuracy);
  if (record.ema_val_loss) {
    writer_->scalar("val/ema_loss", *record.ema_val_loss);
    writer_->known_scalar("val/ema_accuracy", record.ema_val_accuracy.value_or(-1));
  }
  writer_->scalar("val/seconds", record.seconds);
  writer_->end();
  writer_->flush();
}

void TensorboardFile::on_rollback(const RollbackRecord& record) {
  if (writer_) writer_->drop_from(record.step + 1);
}

void TensorboardFile::on_end(const TrainSummary& /*summary*/) {
  if (writer_) writer_->say_ended();
}

std::string TensorboardFile::finish() {
  if (writer_ && error_.empty()) error_ = writer_->finish();
  writer_.reset();
  return error_;
}

void remove_tensorboard_files(const std::string& folder) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) return;
  for (const std::string& name : io::names_in(folder))
    if (name.starts_with(kEventFile)) fs::remove(fs::path(folder) / name, ignored);
  fs::remove(folder, ignored);
}

}  // namespace lockstep
