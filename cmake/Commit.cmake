# Writes generated/commit.h with the commit this tree is at, "+" behind it when
# the tree has changes; "unknown" outside git. Follows later commits by configuring
# again; a later edit shows at the next configure.
function(sluice_commit_header)
  set(commit unknown)
  execute_process(COMMAND git -C ${PROJECT_SOURCE_DIR} rev-parse --short=12 HEAD
    OUTPUT_VARIABLE head OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed)
    set(commit ${head})
    execute_process(COMMAND git -C ${PROJECT_SOURCE_DIR} diff --quiet HEAD -- src cmake CMakeLists.txt
      RESULT_VARIABLE changed ERROR_QUIET)
    if(changed)
      string(APPEND commit "+")
    endif()
    execute_process(COMMAND git -C ${PROJECT_SOURCE_DIR} rev-parse --git-path logs/HEAD
      OUTPUT_VARIABLE log OUTPUT_STRIP_TRAILING_WHITESPACE)
    get_filename_component(log ${log} ABSOLUTE BASE_DIR ${PROJECT_SOURCE_DIR})
    if(EXISTS ${log})
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${log})
    endif()
  endif()
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/commit.h
    CONTENT "#pragma once\n#define SLUICE_COMMIT \"${commit}\"\n")
endfunction()
