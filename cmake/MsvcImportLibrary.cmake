# cmake -D EXPORTS=all.def -D LIBRARY=vkformer.dll -D DLLTOOL=llvm-dlltool -D OUTPUT=vkformer.lib
# -P MsvcImportLibrary.cmake: the import library for the functions of C among the exports that MinGW's linker lists.
file(STRINGS ${EXPORTS} lines REGEX "^ *vkf_[a-z0-9_]+( |$)")
list(TRANSFORM lines REPLACE "^ *(vkf_[a-z0-9_]+).*" "    \\1")
if(NOT lines)
    message(FATAL_ERROR "${EXPORTS} has no vkf_ function")
endif()
list(JOIN lines "\n" exports)
file(WRITE ${OUTPUT}.def "LIBRARY ${LIBRARY}\nEXPORTS\n${exports}\n")
execute_process(COMMAND ${DLLTOOL} -m i386:x86-64 -d ${OUTPUT}.def -D ${LIBRARY} -l ${OUTPUT}
    COMMAND_ERROR_IS_FATAL ANY)
