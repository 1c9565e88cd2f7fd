// Shared by rewrite.cpp and kernels.cpp.
#ifndef SOFTMETAL_REWRITE_H
#define SOFTMETAL_REWRITE_H

#include "frontend.h"

namespace sm {

struct Attribute {
    std::string name, argument;
    int at; // token
};

struct Rewriter {
    std::vector<Token> t;
    std::vector<Attribute> attributes;
    Translation out;
    std::set<std::string> vector_names;
    std::map<std::string, std::set<std::string>> mentions; // names used by a function or class
    std::map<std::string, KernelInfo> templates;           // kernels that are templates
    int threadgroup_variables = 0;

    void error(int at, const std::string &text);
    int next(int i) const;   // the next token that is not space, or t.size()
    int before(int i) const; // the one before, or -1
    bool is(int i, const char *s) const;
    int match(int i) const;  // the partner of ( [ { or <, or t.size()
    void blank(int from, int to); // keeps line breaks

    void directives(bool preprocessed);
    void banned();
    void take_attributes();
    void constructors();
    void threadgroup_declarations();
    void rename();
    void keywords();
    // kernels.cpp
    void declarations(const std::map<std::string, std::string> &values);
    void kernel(int from, int to, const std::string &scope);
    void function_constant(int from, int to, const std::map<std::string, std::string> &values);
    bool parameters(KernelInfo &k, int open, int close);
    unsigned uses(const std::string &name) const;
    std::string wrappers();
};

} // namespace sm
#endif
