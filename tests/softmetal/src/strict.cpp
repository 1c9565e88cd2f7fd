// Knob `strict`: two things that C++ for OpenCL accepts and Metal does not.
#include "compile.h"

#include <cstdio>
#include <map>
#include <set>
#include <sstream>

namespace sm {

namespace {

std::string read_file(const std::string &path)
{
    std::string s;
    if (FILE *f = fopen(path.c_str(), "r")) {
        char buffer[65536];
        size_t n;
        while ((n = fread(buffer, 1, sizeof buffer, f)) > 0)
            s.append(buffer, n);
        fclose(f);
    }
    return s;
}

// Variables and parameters whose type has a pointer or reference without an
// address space: clang prints it as __generic.
std::string generic_pointers(const std::vector<std::string> &command, const std::string &input)
{
    std::vector<std::string> c = command;
    for (const char *s : {"-Xclang", "-ast-dump", "-fsyntax-only", "-fno-color-diagnostics"})
        c.push_back(s);
    c.push_back(input);
    std::string dump, problems;
    run_tool(c, dump);
    std::istringstream lines(dump);
    bool wrappers = false;
    for (std::string line; std::getline(lines, line);) {
        wrappers |= line.find("<wrappers:") != std::string::npos;
        if (wrappers)
            break;
        if (line.find("VarDecl ") == std::string::npos || line.find("implicit") != std::string::npos)
            continue;
        size_t quote = line.find('\'');
        if (quote == std::string::npos || line.find("__generic", quote) == std::string::npos)
            continue;
        size_t end = line.rfind(' ', quote - 2);
        if (line.find(':', end) < quote)
            continue; // no name: of a function that clang wrote
        problems += "program_source: error: pointer or reference without an address space: " +
                    line.substr(end + 1, quote - end - 2) + " " + line.substr(quote) + "\n";
    }
    return problems;
}

// Cycles in the call graph of unoptimised code.
std::string recursion(const std::vector<std::string> &command, const std::string &input,
                      const std::string &temporary)
{
    std::vector<std::string> c = command;
    for (const char *s : {"-S", "-emit-llvm", "-Xclang", "-disable-llvm-passes"})
        c.push_back(s);
    c.push_back(input);
    c.push_back("-o");
    c.push_back(temporary);
    std::string output;
    if (run_tool(c, output) != 0)
        return ""; // the real compilation reports it
    std::map<std::string, std::set<std::string>> calls;
    std::string current;
    std::istringstream lines(read_file(temporary));
    auto name_at = [](const std::string &line, size_t at) {
        size_t end = line.find('(', at);
        return line.substr(at + 1, end == std::string::npos ? end : end - at - 1);
    };
    for (std::string line; std::getline(lines, line);) {
        size_t at = line.find('@');
        if (line.compare(0, 7, "define ") == 0 && at != std::string::npos)
            current = name_at(line, at);
        else if (line.find("call ") != std::string::npos && at != std::string::npos)
            calls[current].insert(name_at(line, at));
    }
    std::string problems;
    std::map<std::string, int> colour;
    struct Frame {
        std::string name;
        std::set<std::string>::const_iterator next, end;
    };
    for (auto &root : calls) {
        std::vector<Frame> stack;
        auto push = [&](const std::string &n) {
            colour[n] = 1;
            auto &s = calls[n];
            stack.push_back({n, s.begin(), s.end()});
        };
        if (!colour[root.first])
            push(root.first);
        while (!stack.empty()) {
            Frame &f = stack.back();
            if (f.next == f.end) {
                colour[f.name] = 2;
                stack.pop_back();
                continue;
            }
            std::string n = *f.next++;
            if (!calls.count(n))
                continue;
            if (colour[n] == 1)
                problems += "program_source: error: recursion is not available in Metal: " + n + "\n";
            else if (!colour[n])
                push(n);
        }
    }
    return problems;
}

} // namespace

std::string strict_problems(const std::vector<std::string> &command, const std::string &input,
                            const std::string &temporary)
{
    return generic_pointers(command, input) + recursion(command, input, temporary);
}

} // namespace sm
