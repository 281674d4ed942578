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
