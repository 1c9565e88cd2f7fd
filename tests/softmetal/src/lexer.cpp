// Splits MSL text into tokens.
#include "frontend.h"

#include <cctype>

namespace sm {

namespace {

bool name_start(char c) { return isalpha((unsigned char)c) || c == '_'; }
bool name_part(char c) { return isalnum((unsigned char)c) || c == '_'; }

struct Lexer {
    const std::string &s;
    size_t i = 0;
    int line = 1, column = 1;
    bool line_start = true;
    std::vector<Token> out;

    explicit Lexer(const std::string &text) : s(text) {}

    char at(size_t k) const { return i + k < s.size() ? s[i + k] : 0; }

    void emit(Kind kind, size_t length, const std::string *replacement = nullptr)
    {
        Token t;
        t.kind = kind;
        t.text = replacement ? *replacement : s.substr(i, length);
        t.line = line;
        t.column = column;
        for (size_t k = 0; k < length; ++k)
            if (s[i + k] == '\n') {
                ++line;
                column = 1;
                line_start = true;
            } else {
                ++column;
            }
        i += length;
        if (kind != Kind::kSpace && kind != Kind::kDirective)
            line_start = false;
        out.push_back(std::move(t));
    }

    // A comment keeps its line breaks only.
    void comment()
    {
        size_t n;
        if (at(1) == '/') {
            n = s.find('\n', i);
            n = n == std::string::npos ? s.size() - i : n - i;
        } else {
            n = s.find("*/", i + 2);
            n = n == std::string::npos ? s.size() - i : n + 2 - i;
        }
        std::string blank(" ");
        for (size_t k = 0; k < n; ++k)
            if (s[i + k] == '\n')
                blank += '\n';
        bool start = line_start;
        emit(Kind::kSpace, n, &blank);
        line_start = start || blank.size() > 1;
    }

    void directive()
    {
        size_t n = 0;
        while (i + n < s.size() && (s[i + n] != '\n' || (n && s[i + n - 1] == '\\')))
            ++n;
        emit(Kind::kDirective, n);
    }

    void number()
    {
        size_t n = 1;
        while (i + n < s.size()) {
            char c = s[i + n], before = s[i + n - 1];
            bool exponent = (before == 'e' || before == 'E' || before == 'p' || before == 'P') &&
                            (c == '+' || c == '-');
            bool hex = s[i] == '0' && (at(1) == 'x' || at(1) == 'X');
            if (exponent && hex && (before == 'e' || before == 'E'))
                exponent = false;
            if (!name_part(c) && c != '.' && c != '\'' && !exponent)
                break;
            ++n;
        }
        emit(Kind::kNumber, n);
    }

    void quoted(char quote)
    {
        size_t n = 1;
        while (i + n < s.size() && s[i + n] != quote && s[i + n] != '\n')
            n += s[i + n] == '\\' ? 2 : 1;
        emit(Kind::kString, n + 1 <= s.size() - i ? n + 1 : s.size() - i);
    }

    void run()
    {
        while (i < s.size()) {
            char c = s[i];
            if (isspace((unsigned char)c)) {
                size_t n = 1;
                while (i + n < s.size() && isspace((unsigned char)s[i + n]))
                    ++n;
                bool start = line_start;
                emit(Kind::kSpace, n);
                line_start = start || out.back().text.find('\n') != std::string::npos;
            } else if (c == '/' && (at(1) == '/' || at(1) == '*')) {
                comment();
            } else if (c == '#' && line_start) {
                directive();
            } else if (name_start(c)) {
                size_t n = 1;
                while (i + n < s.size() && name_part(s[i + n]))
                    ++n;
                emit(Kind::kName, n);
            } else if (isdigit((unsigned char)c) || (c == '.' && isdigit((unsigned char)at(1)))) {
                number();
            } else if (c == '"' || c == '\'') {
                quoted(c);
            } else {
                static const char *const two[] = {"::", "->", "[[", "<<", "&&", "||", "==", "!=",
                                                  "<=", ">=", "+=", "-=", "*=", "/=", "|=", "&=",
                                                  "^=", "%=", "++", "--"};
                size_t n = 1;
                for (const char *t : two)
                    if (c == t[0] && at(1) == t[1])
                        n = 2;
                // `[[` only opens an attribute, which starts with a name.
                if (n == 2 && c == '[' && !name_start(at(2)) && !isspace((unsigned char)at(2)))
                    n = 1;
                emit(Kind::kPunct, n);
            }
        }
    }
};

} // namespace

std::vector<Token> tokenize(const std::string &text)
{
    Lexer l(text);
    l.run();
    return std::move(l.out);
}

std::string join(const std::vector<Token> &tokens)
{
    std::string s;
    for (const Token &t : tokens)
        s += t.text;
    return s;
}

} // namespace sm
