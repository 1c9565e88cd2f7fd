// MSL text -> C++ for OpenCL text.
#ifndef SOFTMETAL_FRONTEND_H
#define SOFTMETAL_FRONTEND_H

#include <map>
#include <set>
#include <string>
#include <vector>

namespace sm {

enum class Kind { kSpace, kName, kNumber, kString, kPunct, kDirective };

struct Token {
    Kind kind;
    std::string text;
    int line, column; // in the text that the user sees
    bool is(const char *s) const { return text == s; }
};

// Comments become spaces; a directive is one token.
std::vector<Token> tokenize(const std::string &text);
std::string join(const std::vector<Token> &tokens);

struct KernelInfo {
    std::string name;     // what newFunctionWithName finds
    std::string function; // the function to call, template arguments included
    struct Parameter {
        std::string what; // "buffer", "threadgroup" or the name of a built-in
        int index;
    };
    std::vector<Parameter> parameters;
    unsigned uses;
    unsigned max_threads;
};

struct Constant { // [[function_constant(n)]]
    int index;
    std::string type, name;
};

struct Translation {
    std::string text;
    std::vector<KernelInfo> kernels;
    std::vector<Constant> constants;
    std::string errors; // as the Metal compiler prints them; empty on success
    bool needs_preprocessor; // has directives of its own
    bool safe_math, contract_off;
};

// values: of function constants, by index or name.  A text that needs a
// preprocessor comes back without its includes, to be expanded and given again.
Translation translate(const std::string &source, const std::map<std::string, std::string> &values,
                      bool preprocessed);

} // namespace sm
#endif
