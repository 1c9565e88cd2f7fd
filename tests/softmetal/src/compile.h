// Runs the system's clang and linker on translated kernels.
#ifndef SOFTMETAL_COMPILE_H
#define SOFTMETAL_COMPILE_H

#include "program.h"

namespace sm {

// Path of the shared library for a text, from the disk cache or made now.
// Empty on failure, with the compiler's messages in `errors`.
std::string compile(const std::string &source, const sm_compile_options &options,
                    const std::string &macros, const std::string &constants, std::string &errors);

// Runs a program; its standard output and error go to `output`.  Exit status.
int run_tool(const std::vector<std::string> &arguments, std::string &output);

// strict.cpp: generic pointers and recursion, as compiler messages.
std::string strict_problems(const std::vector<std::string> &command, const std::string &input,
                            const std::string &temporary);

} // namespace sm
#endif
