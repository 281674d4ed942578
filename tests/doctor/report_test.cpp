// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/report.h"

#include <algorithm>
#include <gmock/gmock.h>

#include "core/host/cpu_list.h"
#include "tests/doctor/fake_machine.h"

namespace lockstep::doctor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

RankReport report(int rank, double rate = 100, const std::string& driver = "580") {
  RankReport result{rank, "node" + std::to_string(rank / 2), {}};
  result.findings = {pass("driver", "answers"), pass("processor", "fast"), pass("storage", "room")};
  result.findings[0].trait = driver;
  result.findings[1].rate = rate;
  return result;
}

TEST(DoctorReport, RanksThatAreAlike) {
  const Report merged = merge({report(0), report(1, 95), report(2), report(3)});
  EXPECT_THAT(merged.odd, IsEmpty());
  EXPECT_EQ(exit_code(merged), ExitCode::done);
  EXPECT_THAT(to_text(merged), HasSubstr("4 ranks on 2 hosts"));
  EXPECT_THAT(to_text(merged), HasSubstr("all 4 ranks are alike"));
}

TEST(DoctorReport, TheRankWithAFailureIsNamed) {
  RankReport bad = report(3);
  bad.findings[2] = fail("storage", "cannot be written", "mount it");
  const Report merged = merge({report(0), report(1), report(2), bad});
  EXPECT_EQ(merged.lines[2].verdict, Verdict::fail);
  EXPECT_EQ(merged.lines[2].text, "rank 3 on node1: cannot be written");
  EXPECT_EQ(merged.lines[2].remedy, "mount it");
  EXPECT_THAT(merged.odd, ElementsAre("rank 3 on node1: storage"));
  EXPECT_EQ(exit_code(merged), ExitCode::environment);
}

TEST(DoctorReport, TheRankWithAnotherDriverIsNamed) {
  const Report merged = merge({report(0), report(1), report(2, 100, "550"), report(3)});
  EXPECT_EQ(merged.lines[0].verdict, Verdict::warn);
  EXPECT_THAT(merged.lines[0].text, HasSubstr("rank 2 on node1 has 550, most have 580"));
  EXPECT_THAT(merged.lines[0].remedy, HasSubstr("--exclude=node1"));
  EXPECT_THAT(merged.odd, ElementsAre("rank 2 on node1: driver"));
}

TEST(DoctorReport, OfTwoThatDifferBothAreNamed) {
  const Report merged = merge({report(0), report(1, 100, "550")});
  EXPECT_THAT(merged.lines[0].text, HasSubstr("rank 0 on node0 has 580, rank 1 on node0 has 550"));
  EXPECT_THAT(merged.odd, ElementsAre("rank 0 on node0: driver", "rank 1 on node0: driver"));
}

TEST(DoctorReport, MostMayHaveNone) {
  const Report merged = merge({report(0, 100, ""), report(1, 100, "580"), report(2, 100, "")});
  EXPECT_THAT(merged.lines[0].text, HasSubstr("rank 1 on node0 has 580, most have none"));
  EXPECT_THAT(merged.odd, ElementsAre("rank 1 on node0: driver"));
}

TEST(DoctorReport, TwoAgainstTwo) {
  const Report merged = merge({report(0), report(1, 100, "550"), report(2, 100, "550"), report(3)});
  EXPECT_THAT(merged.lines[0].text, HasSubstr("rank 0 on node0 has 580, rank 1 on node0 has 550"));
}

TEST(DoctorReport, TheSlowRankIsNamed) {
  const Report merged = merge({report(0), report(1, 60), report(2), report(3)});
  EXPECT_EQ(merged.lines[1].verdict, Verdict::warn);
  EXPECT_THAT(merged.lines[1].text, HasSubstr("rank 1 on node0 reaches 60% of the median"));
  EXPECT_THAT(merged.odd, ElementsAre("rank 1 on node0: processor"));
}

TEST(DoctorReport, ALineThatOneHostAloneHas) {
  RankReport more = report(1);
  more.findings.push_back(warn("ECC", "off", "switch it on"));
  const Report merged = merge({report(0), more});
  ASSERT_EQ(merged.lines.size(), 4u);
  EXPECT_EQ(merged.lines[3].verdict, Verdict::warn);
}

TEST(DoctorReport, MessagesKeepEverything) {
  RankReport sent = report(5, 123.5);
  sent.findings[2] = warn("storage", "a \"quoted\"\ntext \xff", "a remedy");
  const RankReport got = from_message(to_message(sent));
  EXPECT_EQ(got.rank, 5);
  EXPECT_EQ(got.host, "node2");
  ASSERT_EQ(got.findings.size(), 3u);
  EXPECT_EQ(got.findings[0].trait, "580");
  EXPECT_EQ(got.findings[1].rate, 123.5);
  EXPECT_EQ(got.findings[2].verdict, Verdict::warn);
  EXPECT_EQ(got.findings[2].remedy, "a remedy");
  EXPECT_THROW(from_message("{"), InternalError);
}

TEST(DoctorReport, JsonHasEveryLine) {
  const nlohmann::ordered_json json = to_json(merge({report(0)}));
  EXPECT_EQ(json["exit_code"], 0);
  EXPECT_EQ(json["pass"], 3);
  EXPECT_EQ(json["findings"][0]["subject"], "driver");
  EXPECT_EQ(json["findings"][0]["verdict"], "pass");
}

TEST(DoctorReport, FitsAScreenAtItsWorst) {
  FakeMachine machine;
  machine.set("CUDA_VISIBLE_DEVICES", "7");
  machine.shared_memory.free = machine.shared_memory.bytes = 1 << 20;
  machine.trial.error = 30;
  machine.environment.ranks_here = 100;
  const std::string text = to_text(merge({{0, "node", machine.examine()}}));
  EXPECT_LE(std::ranges::count(text, '\n'), 40) << text;
  for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
    EXPECT_LE(end - at, 110u) << text.substr(at, end - at);
  EXPECT_THAT(text, HasSubstr("\n  FAIL  devices"));
  EXPECT_THAT(text, HasSubstr("fix: unset CUDA_VISIBLE_DEVICES"));
}

TEST(DoctorReport, NumbersAndLists) {
  EXPECT_THAT(parse_cpu_list("0-2,8, x"), ElementsAre(0, 1, 2, 8));
  EXPECT_EQ(format_cpu_list({0, 1, 2, 8, 10, 11}), "0-2,8,10-11");
  EXPECT_EQ(bytes_text(1.5 * (1 << 30)), "1.5 GiB");
  EXPECT_EQ(bytes_text(64 << 20), "64 MiB");
}

}  // namespace
}  // namespace lockstep::doctor
