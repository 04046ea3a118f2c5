# sluice_embed_page(<target> <output> ROOT <folder> [FILES <file>...])
#
# Writes <output>, a C++ file with the bytes of every file under <folder> (by its
# path below it) and of each extra file (by its name), and adds it to <target>.
# The assembler reads the files (.incbin), so there is no generated text to compile
# and editing one asset rebuilds one small object.
function(sluice_embed_page target output)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "ROOT" "FILES")
  file(GLOB_RECURSE paths CONFIGURE_DEPENDS ${arg_ROOT}/*)
  list(FILTER paths EXCLUDE REGEX "/[.][^/]*$|~$|[.]md$")
  list(APPEND paths ${arg_FILES})
  set(symbols "")
  set(rows "")
  set(n 0)
  foreach(path IN LISTS paths)
    string(FIND "${path}" "${arg_ROOT}/" inside)
    if(inside EQUAL 0)
      file(RELATIVE_PATH name ${arg_ROOT} ${path})
    else()
      get_filename_component(name ${path} NAME)
    endif()
    string(APPEND symbols
      "asm(\".section .rodata\\n\"\n"
      "    \".global sluice_page_${n}\\n.balign 16\\nsluice_page_${n}:\\n\"\n"
      "    \".incbin \\\"${path}\\\"\\n\"\n"
      "    \".global sluice_page_${n}_end\\nsluice_page_${n}_end:\\n.byte 0\\n.previous\\n\");\n"
      "extern \"C\" const char sluice_page_${n}[], sluice_page_${n}_end[];\n")
    string(APPEND rows "    {\"${name}\", sluice_page_${n}, sluice_page_${n}_end},\n")
    math(EXPR n "${n} + 1")
  endforeach()
  file(CONFIGURE OUTPUT ${output} @ONLY CONTENT
"// Written by src/serve/page/embed.cmake.
#include \"serve/page/embedded.h\"

@symbols@
namespace sluice::serve::page {

std::span<const EmbeddedFile> embedded_files() noexcept {
  static const EmbeddedFile files[] = {
@rows@  };
  return files;
}

}  // namespace sluice::serve::page
")
  set_source_files_properties(${output} PROPERTIES OBJECT_DEPENDS "${paths}"
    SKIP_UNITY_BUILD_INCLUSION ON)
  target_sources(${target} PRIVATE ${output})
endfunction()
