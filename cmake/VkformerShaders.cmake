# vkformer_add_shaders(target FOLDERS folder... TABLE function): compiles what the modules.json of these folders list into an object
# library with vkformer::vulkan::<function>(), the table of all its modules, and the header <function>.hpp, which names them for C++.
#
# A modules.json is a list of families: the modules of one source that differ in how their tensors are stored.
#   family    the name by which C++ knows them: vkformer::vulkan::modules::<family>
#   source    a file of that folder, or a path from shaders/
#   storages  those below; absent: one module, whose tensors have but one form
#   defines   of all of them
#   requires  what all of them need of a device, but for what their storages need
include(VkformerGlslang)
# Debian: xz-utils, which dpkg-dev depends on.
find_program(VKFORMER_XZ xz REQUIRED)
mark_as_advanced(VKFORMER_XZ)
# What numbers the modules' ids anew runs where the library is built, whatever it is built for. Where that is the same,
# it is a program like others, but without vkformer_warnings: sanitizers would only slow it.
set(pack_shaders_source ${PROJECT_SOURCE_DIR}/shaders/pack/pack_shaders.cpp)
if(CMAKE_CROSSCOMPILING)
    find_program(VKFORMER_HOST_CXX NAMES c++ g++ clang++ REQUIRED)
    mark_as_advanced(VKFORMER_HOST_CXX)
    set(pack_shaders ${CMAKE_CURRENT_BINARY_DIR}/pack_shaders)
    if(CMAKE_HOST_WIN32)
        string(APPEND pack_shaders .exe)
    endif()
    add_custom_command(
        OUTPUT ${pack_shaders}
        COMMAND ${VKFORMER_HOST_CXX} -std=c++20 -O1 -Wall -Wextra -I${PROJECT_SOURCE_DIR}/runtime
            -o ${pack_shaders} ${pack_shaders_source}
        DEPENDS ${pack_shaders_source} ${PROJECT_SOURCE_DIR}/runtime/vulkan/packed_ids.hpp
        COMMENT "Building pack_shaders"
        VERBATIM
    )
    add_custom_target(vkformer_pack_shaders DEPENDS ${pack_shaders})
    set(pack_shaders_files vkformer_pack_shaders ${pack_shaders})
else()
    add_executable(vkformer_pack_shaders EXCLUDE_FROM_ALL ${pack_shaders_source})
    target_compile_features(vkformer_pack_shaders PRIVATE cxx_std_20)
    target_include_directories(vkformer_pack_shaders PRIVATE ${PROJECT_SOURCE_DIR}/runtime)
    target_compile_options(vkformer_pack_shaders PRIVATE
        $<$<CXX_COMPILER_ID:GNU,Clang,AppleClang>:-Wall -Wextra $<$<CONFIG:Debug>:-O1>>)
    set_target_properties(vkformer_pack_shaders PROPERTIES OUTPUT_NAME pack_shaders CXX_EXTENSIONS OFF UNITY_BUILD OFF)
    set(pack_shaders $<TARGET_FILE:vkformer_pack_shaders>)
    set(pack_shaders_files vkformer_pack_shaders)
endif()

# Compressing well takes seconds each time that a shader has changed; names serve those who debug shaders.
set(xz_preset 9e)
set(keep_names)
if(CMAKE_BUILD_TYPE STREQUAL "Debug")
    set(xz_preset 0)
    set(keep_names names)
endif()

set(known_members family source storages defines requires)
# What a module may require; C++ has them as the enumerators of ShaderRequirement.
set(known_requirements storage16 float16 int_dot subgroup coopmat coopmat2 int64 shuffle addresses)
# How tensors may be stored (shaders/lib/storage.glsl); C++ has them as the enumerators of Storage. "single" stands for no form.
set(known_storages single f32 f16 f16_words b32 f16_to_f32 f16_words_to_f32 f32_to_f16 f32_to_f16_words)
set(defines_of_f16 F16)
set(defines_of_f16_words F16_WORDS)
set(defines_of_b32 ANY_32)
set(defines_of_f16_to_f32 F16 TO_F32)
set(defines_of_f16_words_to_f32 F16_WORDS TO_F32)
set(defines_of_f32_to_f16 F16 TABLE_F32)
set(defines_of_f32_to_f16_words F16_WORDS TABLE_F32)
foreach(storage f16 f16_to_f32 f32_to_f16)
    set(requires_of_${storage} storage16)
endforeach()

list(JOIN known_requirements ", " enumerators)
set(lacking_mask 0)
foreach(requirement IN LISTS VKFORMER_GLSLANG_LACKS)
    list(FIND known_requirements ${requirement} bit)
    math(EXPR lacking_mask "${lacking_mask} | (1 << ${bit})")
endforeach()
list(JOIN known_storages ", " storage_enumerators)
list(LENGTH known_storages storage_count)
list(JOIN known_storages "\", \"" storage_names)
configure_file(${PROJECT_SOURCE_DIR}/cmake/shader_kinds.hpp.in ${PROJECT_BINARY_DIR}/generated/shader_kinds.hpp @ONLY)

# The member of an array of a family's JSON, as a list: empty where it is absent.
function(vkformer_json_list result json index member)
    set(values)
    string(JSON count ERROR_VARIABLE absent LENGTH "${json}" ${index} ${member})
    if(NOT absent AND count GREATER 0)
        math(EXPR last "${count} - 1")
        foreach(i RANGE ${last})
            string(JSON value GET "${json}" ${index} ${member} ${i})
            list(APPEND values ${value})
        endforeach()
    endif()
    set(${result} ${values} PARENT_SCOPE)
endfunction()

function(vkformer_add_shaders target)
    cmake_parse_arguments(PARSE_ARGV 1 argument "" "TABLE" "FOLDERS")
    set(table_function ${argument_TABLE})
    set(binaries_dir ${CMAKE_CURRENT_BINARY_DIR}/spv)
    file(MAKE_DIRECTORY ${binaries_dir})
    set(names)
    set(families)
    set(sources)
    set(lacking_rungs)
    set(lacking_count 0)
    set(family_declarations)
    set(family_definitions)
    set(entries)
    foreach(folder IN LISTS argument_FOLDERS)
        set(shown shaders/${folder}/modules.json)
        set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/modules.json)
        file(READ ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/modules.json json)
        string(JSON length LENGTH "${json}")
        math(EXPR last_family "${length} - 1")
        if(last_family LESS 0)
            message(FATAL_ERROR "${shown} lists no shaders")
        endif()
        foreach(index RANGE ${last_family})
            string(JSON family GET "${json}" ${index} family)
            string(JSON source GET "${json}" ${index} source)
            vkformer_json_list(storages "${json}" ${index} storages)
            vkformer_json_list(family_defines "${json}" ${index} defines)
            vkformer_json_list(family_requires "${json}" ${index} requires)
            string(JSON member_count LENGTH "${json}" ${index})
            math(EXPR last_member "${member_count} - 1")
            foreach(i RANGE ${last_member})
                string(JSON member MEMBER "${json}" ${index} ${i})
                if(NOT member IN_LIST known_members)
                    message(FATAL_ERROR "${shown}: ${family}: \"${member}\" is no member of a family; those are: ${known_members}")
                endif()
            endforeach()
            if(NOT storages)
                set(storages single)
            endif()
            if(NOT family MATCHES "^[a-z][a-z0-9_]*$")
                message(FATAL_ERROR "${shown}: \"${family}\" is no name for a family (lower case, digits, underscores)")
            endif()
            if(family IN_LIST families)
                message(FATAL_ERROR "${shown}: two families have the name \"${family}\"")
            endif()
            list(APPEND families ${family})
            if(NOT source MATCHES "/")
                set(source ${folder}/${source})
            endif()
            if(NOT EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${source})
                message(FATAL_ERROR "${shown}: ${family}: there is no shaders/${source}")
            endif()
            set(of_family)
            foreach(storage IN LISTS storages)
                list(FIND known_storages "${storage}" storage_index)
                if(storage_index LESS 0)
                    list(JOIN known_storages ", " known)
                    message(FATAL_ERROR "${shown}: ${family} is to be stored as \"${storage}\", known are: ${known}")
                endif()
                set(name ${family})
                if(NOT storage STREQUAL "single")
                    set(name ${family}_${storage})
                endif()
                if(name IN_LIST names)
                    message(FATAL_ERROR "${shown}: two modules have the name \"${name}\"")
                endif()
                list(APPEND names ${name})
                set(mask 0)
                set(missing)
                foreach(requirement IN LISTS family_requires requires_of_${storage})
                    list(FIND known_requirements "${requirement}" bit)
                    if(bit LESS 0)
                        list(JOIN known_requirements ", " known)
                        message(FATAL_ERROR "${shown}: ${family} requires \"${requirement}\", known are: ${known}")
                    endif()
                    math(EXPR mask "${mask} | (1 << ${bit})")
                    if(requirement IN_LIST VKFORMER_GLSLANG_LACKS)
                        list(APPEND missing ${requirement})
                    endif()
                endforeach()
                if(missing)
                    list(APPEND lacking_rungs ${missing})
                    math(EXPR lacking_count "${lacking_count} + 1")
                    continue()
                endif()
                # Vulkan 1.2 is the floor; glslang takes cooperative matrix 2 only for SPIR-V 1.6, which is Vulkan 1.3.
                set(target_env vulkan1.2)
                if("coopmat2" IN_LIST family_requires)
                    set(target_env vulkan1.3)
                endif()
                set(defines ${family_defines} ${defines_of_${storage}})
                list(TRANSFORM defines PREPEND -D)
                set(binary ${binaries_dir}/${name}.spv)
                add_custom_command(
                    OUTPUT ${binary}
                    COMMAND ${VKFORMER_GLSLANG_EXECUTABLE} --quiet -V --target-env ${target_env} -I${CMAKE_CURRENT_SOURCE_DIR}
                        ${defines} --depfile ${binary}.d -o ${binary} ${CMAKE_CURRENT_SOURCE_DIR}/${source}
                    DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${source} ${VKFORMER_GLSLANG_EXECUTABLE}
                    DEPFILE ${binary}.d
                    COMMENT "Compiling shader ${name}"
                    VERBATIM
                )
                list(APPEND sources ${source})
                list(APPEND binaries_of_${source} ${binary})
                list(LENGTH entries position)
                list(APPEND entries "        {\"${name}\", \"${source}\", spirv::${name}, ${mask}u},")
                string(APPEND of_family " {Storage::${storage}, ${position}},")
            endforeach()
            string(APPEND family_declarations "extern const ShaderFamily ${family};\n")
            string(APPEND family_definitions "constinit const ShaderFamily ${family}{\"${family}\", ${table_function}, {{${of_family}}}};\n")
        endforeach()
    endforeach()
    list(JOIN entries "\n" entries)

    # All modules lie in one compressed string, those of a source one behind the other.
    list(REMOVE_DUPLICATES sources)
    set(binaries)
    foreach(source IN LISTS sources)
        list(APPEND binaries ${binaries_of_${source}})
    endforeach()
    set(table ${binaries_dir}/${table_function})
    list(JOIN binaries "\n" list)
    # Unlike file(CONFIGURE), this leaves an "@" in a path as it is.
    file(GENERATE OUTPUT ${table}.list CONTENT "${list}\n" NEWLINE_STYLE UNIX)
    list(TRANSFORM binaries APPEND .numbered OUTPUT_VARIABLE numbered)
    add_custom_command(
        OUTPUT ${table}.inc ${table}_packed.inc
        BYPRODUCTS ${table}.bin ${table}.bin.xz ${numbered}
        COMMAND ${pack_shaders} ${table}.list ${table} ${keep_names}
        COMMAND ${CMAKE_COMMAND} -D INPUT=${table}.bin -D OUTPUT=${table}_packed.inc -D XZ=${VKFORMER_XZ} -D PRESET=${xz_preset}
            -P ${PROJECT_SOURCE_DIR}/cmake/PackShaders.cmake
        DEPENDS ${binaries} ${table}.list ${pack_shaders_files} ${PROJECT_SOURCE_DIR}/cmake/PackShaders.cmake
        COMMENT "Packing ${table_function}"
        VERBATIM
    )

    if(lacking_rungs)
        list(REMOVE_DUPLICATES lacking_rungs)
        list(JOIN lacking_rungs ", " rungs)
        message(STATUS "vkformer: glslang ${VKFORMER_GLSLANG_VERSION} is too old for: ${rungs}. "
            "${lacking_count} shader modules are left out; scripts/setup.sh builds a newer glslang")
    endif()

    set(header ${table_function}.hpp)
    configure_file(${PROJECT_SOURCE_DIR}/cmake/shader_modules.hpp.in ${PROJECT_BINARY_DIR}/generated/${header} @ONLY)
    set(shader_table ${CMAKE_CURRENT_BINARY_DIR}/${table_function}.cpp)
    configure_file(${PROJECT_SOURCE_DIR}/cmake/shader_modules.cpp.in ${shader_table} @ONLY)

    add_library(${target} OBJECT ${table}.inc ${table}_packed.inc ${shader_table})
    target_compile_features(${target} PUBLIC cxx_std_20)
    set_target_properties(${target} PROPERTIES
        POSITION_INDEPENDENT_CODE ON
        CXX_EXTENSIONS OFF
        CXX_VISIBILITY_PRESET hidden
        VISIBILITY_INLINES_HIDDEN ON
    )
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/runtime ${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR}/generated ${binaries_dir})
    target_link_libraries(${target} PRIVATE Vulkan::Headers)
endfunction()
