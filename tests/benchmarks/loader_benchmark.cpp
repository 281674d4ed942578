// SPDX-License-Identifier: Apache-2.0
// How many images a second one core turns into training samples. Writes photograph-like JPEG files
// of 500x375 pixels, quality 90, into a temporary folder and measures, in turn and several times:
// a plain libjpeg-turbo loop that decodes all of each file, random-resized crops of 224x224 through
// the Dataset, the same through a Loader with one worker, and from the packed file. Prints medians.
//
//   loader_benchmark [FILES] [ROUNDS]      (default: 200 files, 5 rounds)
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <jpeglib.h>
#include <stdlib.h>
#include <string>
#include <vector>

#include "core/data/images/pack.h"
#include "lockstep/data/loader.h"
#include "lockstep/data/sources.h"
#include "lockstep/error.h"
#include "tests/support/image_files.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kWidth = 500, kHeight = 375, kQuality = 90;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Images a second of `pass`, which goes once over `images` images.
template <class Pass>
double rate(std::int64_t images, Pass&& pass) {
  const auto start = Clock::now();
  pass();
  return double(images) / std::chrono::duration<double>(Clock::now() - start).count();
}

std::vector<std::string> write_files(const fs::path& folder, int count) {
  std::vector<std::string> files;
  for (int i = 0; i < count; ++i) {
    const fs::path file = folder / (i % 2 == 0 ? "even" : "odd") / fmt::format("{:05}.jpg", i);
    fs::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary)
        << test::jpeg_file(test::photo_like(kWidth, kHeight, std::uint64_t(i)), kQuality);
    files.push_back(file.string());
  }
  return files;
}

std::string read(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string bytes(fs::file_size(file), '\0');
  stream.read(bytes.data(), std::streamsize(bytes.size()));
  return bytes;
}

/// As the library's documentation shows it: all rows, default settings.
void plain_decode(const std::string& file, std::vector<unsigned char>& pixels) {
  const std::string bytes = read(file);
  jpeg_decompress_struct info{};
  jpeg_error_mgr error{};
  info.err = jpeg_std_error(&error);
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&info, TRUE);
  jpeg_start_decompress(&info);
  const std::size_t stride = std::size_t(info.output_width) * 3;
  pixels.resize(stride * info.output_height);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = pixels.data() + info.output_scanline * stride;
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);
}

void through_dataset(const data::Dataset& dataset, std::uint64_t epoch) {
  std::vector<std::byte> input(dataset.spec().input.bytes()), target(4);
  for (std::int64_t i = 0; i < dataset.size(); ++i)
    dataset.load(epoch, i, input.data(), target.data());
}

/// Several epochs, so that the start of the thread and of its memory weigh as little as in
/// training.
void through_loader(const std::shared_ptr<const data::Dataset>& dataset, std::uint64_t epochs) {
  constexpr std::int64_t kMicroBatch = 20;
  const std::int64_t size = dataset->size(), total = size * std::int64_t(epochs);
  std::int64_t at = 0;
  data::Loader loader(dataset, {.workers = 1, .micro_batch = kMicroBatch}, [&](auto& request) {
    if (at == total) return false;
    request.epoch = std::uint64_t(at / size);
    do request.samples.push_back(at++ % size);
    while (at % size != 0 && std::int64_t(request.samples.size()) < kMicroBatch);
    return true;
  });
  for (std::int64_t done = 0; done < total;) done += loader.next().samples;
}

struct Folder {
  fs::path path;
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "lockstep_loader_XXXXXX").string();
    path = mkdtemp(pattern.data());
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

void run(int count, int rounds) {
  const Folder folder;
  const std::vector<std::string> files = write_files(folder.path / "images", count);
  std::uint64_t bytes = 0;
  for (const std::string& file : files) bytes += fs::file_size(file);
  const std::string pack = (folder.path / "images.pack").string();
  data::pack_images((folder.path / "images").string(), pack, {});
  const data::ImageOptions options{.size = 224, .resized_crop = 0.08};
  const auto images = data::images((folder.path / "images").string(), options).train;
  const auto packed = data::packed(pack, options).train;

  std::vector<double> plain, dataset, loader, from_pack;
  std::vector<unsigned char> pixels;
  constexpr int kEpochs = 4;
  for (int round = 0; round < rounds; ++round) {
    const auto epoch = std::uint64_t(round);
    plain.push_back(rate(count, [&] {
      for (const std::string& file : files) plain_decode(file, pixels);
    }));
    dataset.push_back(rate(count, [&] { through_dataset(*images, epoch); }));
    loader.push_back(rate(count * kEpochs, [&] { through_loader(images, kEpochs); }));
    from_pack.push_back(rate(count, [&] { through_dataset(*packed, epoch); }));
  }
  const double base = median(plain);
  const auto line = [&](const char* what, const std::vector<double>& rates) {
    fmt::print(
        "{:44} {:8.0f} images/s  {:5.2f} of plain\n", what, median(rates), median(rates) / base);
  };
  fmt::print("{} JPEG files of {}x{}, quality {}, {:.1f} KB on average, {} rounds\n",
             count,
             kWidth,
             kHeight,
             kQuality,
             double(bytes) / double(count) / 1000,
             rounds);
  line("plain libjpeg-turbo, all pixels", plain);
  line("resized-crop 224 through the Dataset", dataset);
  line("resized-crop 224 through a Loader, 1 worker", loader);
  line("resized-crop 224 from the packed file", from_pack);
  fmt::print("packed / JPEG through the Dataset: {:.2f}\n", median(from_pack) / median(dataset));
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  const int files = argc > 1 ? std::atoi(argv[1]) : 200, rounds = argc > 2 ? std::atoi(argv[2]) : 5;
  if (files < 1 || rounds < 1) {
    fmt::print(stderr, "usage: loader_benchmark [FILES] [ROUNDS]\n");
    return 2;
  }
  try {
    lockstep::run(files, rounds);
  } catch (const lockstep::Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
  return 0;
}
