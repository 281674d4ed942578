// SPDX-License-Identifier: Apache-2.0
#include "parallel/session/device_choice.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <optional>
#include <vector>

#include "lockstep/error.h"
#include "tests/support/thread_ranks.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

const DeviceProbe kNone{0, "no NVIDIA driver answers", "install it"};
const DeviceProbe kTwo{2, "", ""};

/// Facts of a machine with a driver for CUDA 13 and a program built with 13.0.
DeviceFacts facts() {
  DeviceFacts facts;
  facts.driver_version = 13010;
  facts.runtime_version = 13000;
  facts.kernel_driver = true;
  facts.installed = 4;
  facts.status = "cudaErrorNoDevice: no CUDA-capable device is detected";
  return facts;
}

TEST(DeviceChoice, AutoTakesADeviceWhereOneAnswers) {
  EXPECT_TRUE(choose_device("auto", kTwo, 0).cuda);
  EXPECT_FALSE(choose_device("cpu", kTwo, 0).cuda);
  const DeviceChoice cpu = choose_device("auto", kNone, 0);
  EXPECT_FALSE(cpu.cuda);
  EXPECT_THAT(cpu.note, HasSubstr(kNone.reason));
}

TEST(DeviceChoice, CudaWithoutADeviceSaysWhy) {
  try {
    choose_device("cuda", kNone, 0);
    FAIL() << "no error";
  } catch (const EnvironmentError& error) {
    EXPECT_THAT(error.what(), HasSubstr(kNone.reason));
    EXPECT_EQ(error.hint(), kNone.hint);
  }
}

TEST(DeviceChoice, RanksOfAHostAreDealtToItsDevices) {
  EXPECT_EQ(choose_device("auto", kTwo, 0).ordinal, 0);
  EXPECT_EQ(choose_device("auto", kTwo, 1).ordinal, 1);
  EXPECT_EQ(choose_device("auto", kTwo, 3).ordinal, 1);
}

DeviceCard card(bool cuda, const std::string& host, const std::string& device = {}) {
  DeviceCard card;
  card.cuda = cuda;
  set_text(card.host, host);
  set_text(card.machine, "machine of " + host);
  set_text(card.device, device);
  return card;
}

/// Of a process in a container, on one of several machines.
DeviceCard contained(const std::string& host, const std::string& machine) {
  DeviceCard inside = card(true, host, "0000:01:00.0");
  set_text(inside.machine, machine);
  return inside;
}

DeviceCard with_uuid(DeviceCard card, const std::string& uuid) {
  set_text(card.gpu, uuid);
  return card;
}

/// What `ask(rank, own card)` returns on every rank, which has to be the same.
template <typename Ask>
auto ask_all(const std::vector<DeviceCard>& cards, Ask ask) {
  const auto answers = testing::on_ranks(int(cards.size()), [&](Communicator& rank) {
    return ask(rank, cards[std::size_t(rank.rank())]);
  });
  EXPECT_THAT(answers, ::testing::Each(answers[0]));
  return answers[0];
}

std::string sharing_note(const std::vector<DeviceCard>& cards) {
  return ask_all(cards, [](Communicator& rank, const DeviceCard& own) {
    const GpuSharing sharing = gpu_sharing(rank, own);
    EXPECT_EQ(sharing.any, !sharing.note.empty());
    return sharing.note;
  });
}

bool share_a_gpu(const std::vector<DeviceCard>& cards) { return !sharing_note(cards).empty(); }

std::string reason_against_nccl(const std::vector<DeviceCard>& cards) {
  return ask_all(cards, [](Communicator& rank, const DeviceCard& own) {
    return lockstep::reason_against_nccl(rank, own, gpu_sharing(rank, own).any);
  });
}

int ranks_before(const std::vector<DeviceCard>& cards, int rank) {
  return testing::on_ranks(int(cards.size()), [&](Communicator& c) {
    return lockstep::ranks_before(c, cards[std::size_t(c.rank())]);
  })[std::size_t(rank)];
}

/// The error that all ranks throw.
std::optional<Error> check_devices(const std::vector<DeviceCard>& cards) {
  const auto errors =
      testing::on_ranks(int(cards.size()), [&](Communicator& rank) -> std::optional<Error> {
        try {
          lockstep::check_devices(rank, cards[std::size_t(rank.rank())]);
          return std::nullopt;
        } catch (const Error& error) {
          return error;
        }
      });
  for (const std::optional<Error>& error : errors) {
    EXPECT_EQ(error.has_value(), errors[0].has_value());
    if (error && errors[0]) {
      EXPECT_STREQ(error->what(), errors[0]->what());
      EXPECT_EQ(error->hint(), errors[0]->hint());
    }
  }
  return errors[0];
}

TEST(DeviceChoice, SharedDevicesAreNamed) {
  EXPECT_EQ(sharing_note(std::vector{card(true, "a", "1"), card(true, "b", "1")}), "");
  EXPECT_EQ(sharing_note(std::vector{card(false, "a"), card(false, "a")}), "");
  EXPECT_THAT(
      sharing_note(std::vector{card(true, "a", "1"), card(true, "a", "2"), card(true, "a", "1")}),
      HasSubstr("2 ranks share GPU 1 of a"));
}

TEST(DeviceChoice, OfSeveralSharedDevicesTheBusiestIsNamed) {
  std::vector<DeviceCard> cards;
  for (const char* device : {"1", "2", "1", "3", "2", "2"})
    cards.push_back(card(true, "a", device));
  EXPECT_THAT(sharing_note(cards), HasSubstr("3 ranks share GPU 2 of a"));
  cards.push_back(card(true, "a", "1"));
  EXPECT_THAT(sharing_note(cards), HasSubstr("3 ranks share GPU 1 of a")) << "the first of them";
  // One by its number, one by its place: counted once where both are known.
  const DeviceCard here = with_uuid(card(true, "a", "9"), "17");
  EXPECT_THAT(sharing_note({here, here, with_uuid(card(true, "sandbox", "1"), "17")}),
              HasSubstr("3 ranks share GPU 9 of a"));
}

TEST(DeviceChoice, MachinesAreToldApartThatSayTheSameName) {
  const std::vector two_machines{contained("ml", "x"), contained("ml", "y")};
  EXPECT_FALSE(share_a_gpu(two_machines));
  EXPECT_EQ(sharing_note(two_machines), "");
  EXPECT_EQ(reason_against_nccl(two_machines), "");
  EXPECT_EQ(ranks_before(two_machines, 1), 0);
  const std::vector two_containers{contained("ml1", "x"), contained("ml2", "x")};
  EXPECT_TRUE(share_a_gpu(two_containers));
  EXPECT_THAT(sharing_note(two_containers), HasSubstr("2 ranks share GPU 0000:01:00.0 of ml1"));
  EXPECT_EQ(ranks_before(two_containers, 1), 1);
}

TEST(DeviceChoice, AGpuIsKnownByItsNumberOrItsPlace) {
  const DeviceCard a = contained("a", "x"), hidden = contained("b", "sandbox");
  EXPECT_TRUE(share_a_gpu(std::vector{with_uuid(a, "17"), with_uuid(hidden, "17")}));
  EXPECT_FALSE(share_a_gpu(std::vector{with_uuid(a, "17"), with_uuid(hidden, "18")}));
  EXPECT_TRUE(share_a_gpu(std::vector{with_uuid(a, "part 1"), with_uuid(a, "part 2")}));
}

TEST(DeviceChoice, NcclIsUsedWhereAllRanksCan) {
  std::vector<DeviceCard> cards{card(true, "a", "1"), card(true, "a", "2"), card(true, "b", "1")};
  EXPECT_EQ(reason_against_nccl(cards), "");
  set_text(cards[1].no_nccl, "LOCKSTEP_NCCL=off");
  EXPECT_EQ(reason_against_nccl(cards), "rank 1 on a does without: LOCKSTEP_NCCL=off");
  for (DeviceCard& each : cards) set_text(each.no_nccl, "LOCKSTEP_NCCL=off");
  EXPECT_EQ(reason_against_nccl(cards), "LOCKSTEP_NCCL=off");
}

TEST(DeviceChoice, NcclIsSharedWhereAllRanksSaySo) {
  std::vector<DeviceCard> cards{card(true, "a", "1"), card(true, "a", "1")};
  EXPECT_EQ(reason_against_nccl(cards), "it takes no two ranks on one GPU");
  cards[0].shared_nccl = 1;
  EXPECT_THAT(reason_against_nccl(cards),
              HasSubstr("rank 1 on a does not have LOCKSTEP_NCCL=shared"));
  cards[1].shared_nccl = 1;
  EXPECT_EQ(reason_against_nccl(cards), "");
}

TEST(DeviceChoice, TextIsCutToItsRoom) {
  DeviceCard card;
  set_text(card.device, std::string(100, 'x'));
  EXPECT_EQ(card.device, std::string(sizeof card.device - 1, 'x'));
  set_text(card.device, "y");
  EXPECT_STREQ(card.device, "y");
}

TEST(DeviceChoice, DevicesOfTwoKindsAreRefused) {
  EXPECT_FALSE(check_devices({card(true, "a"), card(true, "b")}));
  EXPECT_FALSE(check_devices({card(false, "a"), card(false, "b")}));
  const auto error =
      check_devices({card(false, "a"), card(false, "b"), card(true, "c"), card(true, "d")});
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("rank 2 on c has a GPU, rank 0 on a has none"));
  EXPECT_EQ(error->exit_code(), EnvironmentError("").exit_code());
}

TEST(DeviceChoice, TheRankThatFailedIsNamedOnAll) {
  std::vector<DeviceCard> cards{card(true, "a"), card(true, "b"), card(true, "c")};
  cards[1].exit_code = int(ExitCode::out_of_memory);
  cards[2].exit_code = int(ExitCode::error);
  set_text(cards[1].text, "no memory");
  set_text(cards[1].hint, "free some");
  const auto error = check_devices(cards);
  ASSERT_TRUE(error);
  EXPECT_STREQ(error->what(), "rank 1 on b: no memory");
  EXPECT_EQ(error->hint(), "free some");
  EXPECT_EQ(error->exit_code(), ExitCode::out_of_memory);
}

TEST(DeviceProbe, CountsDevices) {
  DeviceFacts some = facts();
  some.devices = 4;
  some.oldest_capability = 80;
  some.status.clear();
  EXPECT_EQ(explain_devices(some).devices, 4);
}

TEST(DeviceProbe, DevicesTooOld) {
  DeviceFacts old = facts();
  old.devices = 1;
  old.oldest_capability = 75;
  EXPECT_EQ(explain_devices(old).devices, 0);
  EXPECT_THAT(explain_devices(old).reason, HasSubstr("compute capability 7.5, and 8.0 is needed"));
}

TEST(DeviceProbe, NoDriver) {
  EXPECT_THAT(explain_devices(DeviceFacts{}).reason, HasSubstr("no NVIDIA driver"));
}

TEST(DeviceProbe, DriverOutsideTheContainer) {
  DeviceFacts inside;
  inside.kernel_driver = true;
  inside.installed = 1;
  const DeviceProbe probe = explain_devices(inside);
  EXPECT_THAT(probe.reason, HasSubstr("libcuda.so.1"));
  EXPECT_THAT(probe.hint, HasSubstr("--gpus all"));
}

TEST(DeviceProbe, DriverTooOld) {
  DeviceFacts old = facts();
  old.driver_version = 12040;
  old.status = "cudaErrorInsufficientDriver: CUDA driver version is insufficient";
  EXPECT_THAT(explain_devices(old).reason, HasSubstr("does CUDA 12.4, this program needs 13.0"));
}

TEST(DeviceProbe, HiddenDevices) {
  DeviceFacts hidden = facts();
  for (const char* list : {"", "7", "-1"}) {
    hidden.visible_devices = list;
    EXPECT_THAT(explain_devices(hidden).reason,
                HasSubstr(fmt::format("(4 in this machine): CUDA_VISIBLE_DEVICES='{}'", list)));
  }
}

TEST(DeviceProbe, SlurmGaveNone) {
  DeviceFacts job = facts();
  job.slurm_without_gpu = true;
  EXPECT_THAT(explain_devices(job).reason, HasSubstr("Slurm gave this job none"));
  EXPECT_THAT(explain_devices(job).hint, HasSubstr("--gpus-per-node="));
}

TEST(DeviceProbe, BrokenDevice) {
  DeviceFacts broken = facts();
  broken.status = "cudaErrorSystemDriverMismatch: versions do not match";
  EXPECT_THAT(explain_devices(broken).reason, HasSubstr("cudaErrorSystemDriverMismatch"));
}

}  // namespace
}  // namespace lockstep
