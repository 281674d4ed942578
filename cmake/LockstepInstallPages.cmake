# Runs at cmake --install: completion scripts and man pages, as the program that is installed writes
# them. PROGRAM, FOLDER (of the build, for the files), MAN and DATA (where they are installed below the
# prefix) are set by LockstepInstall.cmake.
function(written_by_program file)
  execute_process(COMMAND ${PROGRAM} ${ARGN} OUTPUT_FILE ${file} ERROR_VARIABLE error RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${PROGRAM} ${ARGN} failed (${result}): ${error}")
  endif()
endfunction()

file(REMOVE_RECURSE ${FOLDER})
file(MAKE_DIRECTORY ${FOLDER}/man)
written_by_program(${FOLDER}/lockstep completion bash)
written_by_program(${FOLDER}/_lockstep completion zsh)
written_by_program(${FOLDER}/lockstep.fish completion fish)
written_by_program(${FOLDER}/written man --to ${FOLDER}/man)
cmake_path(ABSOLUTE_PATH DATA BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX})
cmake_path(ABSOLUTE_PATH MAN BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX})
file(INSTALL ${FOLDER}/lockstep DESTINATION ${DATA}/bash-completion/completions)
file(INSTALL ${FOLDER}/_lockstep DESTINATION ${DATA}/zsh/site-functions)
file(INSTALL ${FOLDER}/lockstep.fish DESTINATION ${DATA}/fish/vendor_completions.d)
file(INSTALL ${FOLDER}/man/ DESTINATION ${MAN}/man1)
