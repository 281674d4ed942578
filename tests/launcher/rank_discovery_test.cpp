// SPDX-License-Identifier: Apache-2.0
#include "parallel/session/rank_discovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/error.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

std::string discovery_error(const VariableMap& variables) {
  try {
    discover_rank(variables);
  } catch (const EnvironmentError& error) {
    return std::string(error.what()) + " | " + error.hint();
  }
  return "no error";
}

void expect_rank(
    const VariableMap& variables, int rank, int size, int local_rank, const std::string& source) {
  const RankDiscovery found = discover_rank(variables);
  EXPECT_EQ(found.rank, rank);
  EXPECT_EQ(found.size, size);
  EXPECT_EQ(found.local_rank, local_rank);
  EXPECT_THAT(found.source, HasSubstr(source));
}

const VariableMap kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                              {"OMPI_COMM_WORLD_SIZE", "4"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                              {"PMIX_RANK", "1"}};

VariableMap with(VariableMap base, const VariableMap& more) {
  for (const auto& [name, value] : more) base[name] = value;
  return base;
}

TEST(RankDiscovery, NothingSetIsOneRank) {
  expect_rank({{"PATH", "/bin"}}, 0, 1, -1, "alone");
  EXPECT_EQ(discover_rank({}).launched_by, LaunchedBy::none);
}

TEST(RankDiscovery, OpenMpi) {
  expect_rank(kOpenMpi, 1, 4, 1, "mpirun (OMPI_COMM_WORLD_RANK)");
  EXPECT_EQ(discover_rank(kOpenMpi).launched_by, LaunchedBy::mpi);
}

TEST(RankDiscovery, PmiAndMvapich) {
  expect_rank(
      {{"PMI_RANK", "2"}, {"PMI_SIZE", "3"}, {"MPI_LOCALRANKID", "0"}}, 2, 3, 0, "PMI_RANK");
  expect_rank({{"MV2_COMM_WORLD_RANK", "0"},
               {"MV2_COMM_WORLD_SIZE", "2"},
               {"MV2_COMM_WORLD_LOCAL_RANK", "0"}},
              0,
              2,
              0,
              "MV2_COMM_WORLD_RANK");
}

TEST(RankDiscovery, PmixAloneLeavesTheSizeToMpi) {
  expect_rank({{"PMIX_RANK", "3"}}, 3, 0, -1, "PMIX_RANK");
}

TEST(RankDiscovery, SrunWithPmix) {
  expect_rank({{"PMIX_RANK", "3"},
               {"SLURM_JOB_ID", "7"},
               {"SLURM_STEP_ID", "0"},
               {"SLURM_PROCID", "3"},
               {"SLURM_STEP_NUM_TASKS", "4"},
               {"SLURM_NTASKS", "8"},
               {"SLURM_LOCALID", "1"}},
              3,
              4,
              1,
              "srun (PMIX_RANK)");
}

TEST(RankDiscovery, SrunWithoutProcessManager) {
  VariableMap step = {{"SLURM_JOB_ID", "7"},
                      {"SLURM_STEP_ID", "0"},
                      {"SLURM_PROCID", "0"},
                      {"SLURM_NTASKS", "1"},
                      {"SLURM_LOCALID", "0"}};
  expect_rank(step, 0, 1, 0, "srun (SLURM_PROCID)");
  step["SLURM_NTASKS"] = "4";
  EXPECT_THAT(discovery_error(step), HasSubstr("srun --mpi=pmix"));
}

TEST(RankDiscovery, BatchScriptWithoutSrunIsOneProcess) {
  const VariableMap batch = {{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}};
  expect_rank(batch, 0, 1, -1, "alone");
  EXPECT_TRUE(discover_rank(batch).slurm_allocation);
  EXPECT_EQ(discover_rank(batch).slurm_tasks_unused, 4);
  // The interactive step of salloc and the batch step of newer versions have special numbers.
  expect_rank(with(batch, {{"SLURM_STEP_ID", "4294967290"}}), 0, 1, -1, "alone");
  expect_rank(with(batch, {{"SLURM_STEP_ID", "4294967291"}}), 0, 1, -1, "alone");
}

TEST(RankDiscovery, MpirunInsideAllocationInheritsSlurm) {
  const VariableMap inherited = {{"SLURM_JOB_ID", "7"},
                                 {"SLURM_STEP_ID", "0"},
                                 {"SLURM_PROCID", "0"},
                                 {"SLURM_NTASKS", "2"},
                                 {"PMI_RANK", "0"},
                                 {"PMI_SIZE", "2"}};
  expect_rank(with(inherited, kOpenMpi), 1, 4, 1, "OMPI_COMM_WORLD_RANK");
  EXPECT_EQ(discover_rank(with(inherited, kOpenMpi)).slurm_tasks_unused, 0);
}

TEST(RankDiscovery, ByHandComesFirst) {
  expect_rank(with(kOpenMpi, {{"LOCKSTEP_RANK", "1"}, {"LOCKSTEP_WORLD_SIZE", "4"}}),
              1,
              4,
              1,
              "LOCKSTEP_RANK");
  expect_rank({{"LOCKSTEP_RANK", "0"},
               {"LOCKSTEP_WORLD_SIZE", "1"},
               {"LOCKSTEP_LOCAL_RANK", "0"},
               {"SLURM_STEP_ID", "0"},
               {"SLURM_PROCID", "2"},
               {"SLURM_NTASKS", "4"}},
              0,
              1,
              0,
              "LOCKSTEP_RANK");
}

TEST(RankDiscovery, TorchrunVariablesNeedMpiForSeveralRanks) {
  const VariableMap torchrun = {{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "1"}};
  EXPECT_THAT(discovery_error(torchrun), HasSubstr("mpirun -np 4 lockstep"));
  expect_rank(with(kOpenMpi, torchrun), 1, 4, 1, "torchrun-style variables (RANK)");
  expect_rank({{"RANK", "0"}, {"WORLD_SIZE", "1"}}, 0, 1, -1, "RANK");
  expect_rank({{"RANK", "major"}}, 0, 1, -1, "alone");
  EXPECT_THAT(discovery_error({{"LOCKSTEP_RANK", "0"}, {"LOCKSTEP_WORLD_SIZE", "2"}}),
              HasSubstr("no MPI launcher"));
}

TEST(RankDiscovery, ContradictionsNameBoth) {
  const std::string error = discovery_error(with(kOpenMpi, {{"RANK", "0"}, {"WORLD_SIZE", "4"}}));
  EXPECT_THAT(error, HasSubstr("RANK says rank 0 of 4"));
  EXPECT_THAT(error, HasSubstr("OMPI_COMM_WORLD_RANK says rank 1 of 4"));
  EXPECT_THAT(
      discovery_error(with(kOpenMpi, {{"LOCKSTEP_RANK", "1"}, {"LOCKSTEP_WORLD_SIZE", "8"}})),
      HasSubstr("LOCKSTEP_RANK says rank 1 of 8"));
  EXPECT_THAT(discovery_error({{"LOCKSTEP_RANK", "0"},
                               {"LOCKSTEP_WORLD_SIZE", "1"},
                               {"RANK", "0"},
                               {"WORLD_SIZE", "2"}}),
              HasSubstr("contradicting"));
}

TEST(RankDiscovery, BrokenNumbers) {
  EXPECT_THAT(discovery_error({{"OMPI_COMM_WORLD_RANK", "x"}, {"OMPI_COMM_WORLD_SIZE", "2"}}),
              HasSubstr("OMPI_COMM_WORLD_RANK is 'x'"));
  EXPECT_THAT(discovery_error({{"PMI_RANK", "-1"}, {"PMI_SIZE", "2"}}), HasSubstr("'-1'"));
  EXPECT_THAT(discovery_error({{"PMI_RANK", "2"}, {"PMI_SIZE", "2"}}), HasSubstr("PMI_SIZE is 2"));
  EXPECT_THAT(discovery_error({{"LOCKSTEP_RANK", "1"}}), HasSubstr("LOCKSTEP_WORLD_SIZE is not"));
  EXPECT_THAT(discovery_error({{"OMPI_COMM_WORLD_SIZE", "2"}}),
              HasSubstr("OMPI_COMM_WORLD_RANK is not"));
}

TEST(RankDiscovery, RankForEarlyMessages) {
  EXPECT_EQ(launched_rank({}), 0);
  EXPECT_EQ(launched_rank(with(kOpenMpi, {{"LOCKSTEP_RANK", "3"}})), 1);
  EXPECT_EQ(launched_rank({{"OMPI_COMM_WORLD_RANK", "x"}, {"PMIX_RANK", "2"}}), 2);
  EXPECT_EQ(launched_rank({{"SLURM_PROCID", "5"}}), 0);
  EXPECT_EQ(launched_rank({{"SLURM_PROCID", "5"}, {"SLURM_STEP_ID", "0"}}), 5);
}

TEST(RankDiscovery, MpiIsTheAuthority) {
  const RankDiscovery found = discover_rank(kOpenMpi);
  EXPECT_NO_THROW(check_against_mpi(found, 1, 4));
  EXPECT_NO_THROW(check_against_mpi(discover_rank({{"PMIX_RANK", "3"}}), 3, 4));
  EXPECT_THROW(check_against_mpi(discover_rank({{"PMIX_RANK", "3"}}), 2, 4), EnvironmentError);
  try {
    check_against_mpi(found, 0, 1, [] { return ", /lib/libmpi.so.40 (Open MPI v4.1.4)"; });
    FAIL() << "no error";
  } catch (const EnvironmentError& error) {
    EXPECT_THAT(error.what(), HasSubstr("rank 1 of 4"));
    EXPECT_THAT(error.what(), HasSubstr("MPI says rank 0 of 1"));
    EXPECT_THAT(error.hint(), HasSubstr("built with, /lib/libmpi.so.40 (Open MPI v4.1.4)"));
  }
}

}  // namespace
}  // namespace lockstep
