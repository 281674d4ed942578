# Libraries that are missing are named in one message, with the packages of both kinds of systems, and
# how to build without them.
file(REMOVE_RECURSE ${WORK})
execute_process(
  COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK} -G ${GENERATOR}
    -D CMAKE_CXX_COMPILER=${COMPILER} -D LOCKSTEP_CUDA=OFF
    -D CMAKE_DISABLE_FIND_PACKAGE_CLI11=ON -D CMAKE_DISABLE_FIND_PACKAGE_OneDNN=ON -D CMAKE_DISABLE_FIND_PACKAGE_MPI=ON
  RESULT_VARIABLE result OUTPUT_QUIET ERROR_VARIABLE error)
if(result EQUAL 0)
  message(FATAL_ERROR "configuring went well without CLI11, oneDNN and MPI")
endif()
foreach(word CLI11 oneDNN MPI libcli11-dev libdnnl-dev libopenmpi-dev cli11-devel onednn-devel openmpi-devel
        LOCKSTEP_ONEDNN=OFF LOCKSTEP_MPI=OFF CMAKE_PREFIX_PATH)
  if(NOT error MATCHES "${word}")
    message(FATAL_ERROR "${word} is missing in: ${error}")
  endif()
endforeach()
# What was found is not named.
if(error MATCHES "zlib1g-dev")
  message(FATAL_ERROR "zlib is there: ${error}")
endif()

# Half-installed systems: each ends in one message that names the file, what was found, what is wanted, and a remedy.
# expect_refusal(NAME ARGUMENTS... WORDS WORD...): configuring with ARGUMENTS fails and says each WORD.
function(expect_refusal name)
  cmake_parse_arguments(ARG "" "" "WORDS" ${ARGN})
  execute_process(
    COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/${name} -G ${GENERATOR} -D CMAKE_CXX_COMPILER=${COMPILER}
      ${ARG_UNPARSED_ARGUMENTS}
    RESULT_VARIABLE result OUTPUT_QUIET ERROR_VARIABLE error)
  if(result EQUAL 0)
    message(SEND_ERROR "${name}: configuring went well")
  endif()
  string(REGEX REPLACE "[ \n]+" " " error "${error}")  # CMake folds lines
  foreach(word ${ARG_WORDS})
    string(FIND "${error}" "${word}" at)
    if(at EQUAL -1)
      message(SEND_ERROR "${name}: '${word}' is missing in: ${error}")
    endif()
  endforeach()
endfunction()

# write_program(FILE TEXT): a shell script that can be started.
function(write_program file text)
  file(WRITE ${file} "#!/bin/sh\n${text}\n")
  file(CHMOD ${file} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
endfunction()

# MPI's mpirun without its headers.
write_program(${WORK}/mpi/mpirun "echo 'mpirun (Open MPI) 4.1.4'")
set(path "$ENV{PATH}")
set(ENV{PATH} "${WORK}/mpi:${path}")
expect_refusal(mpi_without_headers -D LOCKSTEP_CUDA=OFF -D CMAKE_DISABLE_FIND_PACKAGE_MPI=ON
  WORDS "MPI with its headers" "${WORK}/mpi/mpirun, but no mpi.h" libopenmpi-dev LOCKSTEP_MPI=OFF)
set(ENV{PATH} "${path}")

# Headers of one MPI, mpirun of another.
write_program(${WORK}/other/mpirun "echo 'HYDRA build details:'; echo '    Version:                                 4.0.2'")
if(MPI)
  expect_refusal(two_mpis -D LOCKSTEP_CUDA=OFF -D MPIEXEC_EXECUTABLE=${WORK}/other/mpirun
    WORDS "two kinds of MPI" "include/mpi.h is of Open MPI" "${WORK}/other/mpirun is of MPICH 4.0.2" -DMPIEXEC_EXECUTABLE=
      LOCKSTEP_MPI=OFF)
endif()

# Headers of one oneDNN, the library of another.
file(WRITE ${WORK}/dnnl/include/oneapi/dnnl/dnnl.hpp "")
file(WRITE ${WORK}/dnnl/include/oneapi/dnnl/dnnl_version.h
  "#define DNNL_VERSION_MAJOR 3\n#define DNNL_VERSION_MINOR 7\n#define DNNL_VERSION_PATCH 2\n")
file(WRITE ${WORK}/dnnl/lib/libdnnl.so.2.6 "")
expect_refusal(two_onednns -D LOCKSTEP_CUDA=OFF -D OneDNN_INCLUDE_DIR=${WORK}/dnnl/include
    -D OneDNN_LIBRARY=${WORK}/dnnl/lib/libdnnl.so.2.6
  WORDS "oneDNN 2.6 to 3" "headers of 3.7.2 in ${WORK}/dnnl/include" "${WORK}/dnnl/lib/libdnnl.so.2.6 is of 2"
    -DOneDNN_LIBRARY= libdnnl-dev)

# A charting library that was named and is not there.
expect_refusal(no_chart_library -D LOCKSTEP_CUDA=OFF -D LOCKSTEP_CHART_JS=${WORK}/none.js
  WORDS "LOCKSTEP_CHART_JS: there is no ${WORK}/none.js")

# An nvcc that does not work, and none.
write_program(${WORK}/nvcc/nvcc "echo 'nvcc fatal   : libnvvm is missing' >&2; exit 1")
set(ENV{CUDACXX} ${WORK}/nvcc/nvcc)
expect_refusal(broken_nvcc -D LOCKSTEP_CUDA=ON -D LOCKSTEP_MPI=OFF -D LOCKSTEP_ONEDNN=OFF
  WORDS "no nvcc was found that works" "${WORK}/nvcc/nvcc does not work (1): nvcc fatal : libnvvm is missing"
    "CUDA toolkit 12.4 or later" -DCMAKE_CUDA_COMPILER=)
unset(ENV{CUDACXX})
