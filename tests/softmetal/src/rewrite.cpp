// Token by token changes that turn MSL into C++ for OpenCL.
#include "rewrite.h"

#include <cctype>

namespace sm {

namespace {

const std::set<std::string> kBanned = {
    "goto", "asm", "noexcept", "register", "new", "delete", "try", "catch", "throw", "typeid",
    "dynamic_cast", "virtual", "thread_local", "double", "wchar_t", "char16_t", "char32_t",
    "co_await", "co_return", "co_yield", "concept", "requires", "export", "long_double",
};
const std::set<std::string> kUnsupported = {
    "vertex", "fragment", "mesh", "object", "intersection", "texture1d", "texture2d", "texture3d",
    "texturecube", "texture1d_array", "texture2d_array", "texture2d_ms", "texture_buffer",
    "depth2d", "sampler", "imageblock", "threadgroup_imageblock", "ray_data", "object_data",
    "visible_function_table", "intersection_function_table", "command_buffer", "bfloat",
    "bfloat2", "bfloat3", "bfloat4",
};
// Names that MSL leaves to the program but OpenCL does not.
const std::set<std::string> kRenamed = {
    "local", "global", "generic", "pipe", "read_only", "write_only", "read_write", "uniform",
    "image1d_t", "image2d_t", "image3d_t", "sampler_t", "event_t", "queue_t", "clk_event_t",
    "reserve_id_t", "ndrange_t", "vec_step", "addrspace_cast", "image2d_array_t", "kernel_exec",
};
const std::map<std::string, std::string> kSpaces = {
    {"device", "__global"}, {"constant", "__constant"}, {"threadgroup", "__local"},
    {"thread", "__private"},
};
const char *const kScalars[] = {"char", "uchar", "short", "ushort", "int", "uint", "long", "ulong",
                                "half", "float"};

bool known_header(const std::string &name)
{
    static const std::set<std::string> headers = {
        "metal_stdlib", "metal_math", "metal_integer", "metal_common", "metal_atomic",
        "metal_compute", "metal_simdgroup", "metal_simdgroup_matrix", "metal_quadgroup",
        "metal_types", "metal_type_traits", "metal_limits", "metal_numeric", "metal_geometric",
        "metal_relational", "metal_pack", "metal_array", "metal_packed_vector", "metal_assert",
    };
    return headers.count(name) != 0;
}

} // namespace

void Rewriter::error(int at, const std::string &text)
{
    const Token &tok = t[(size_t)(at < (int)t.size() ? at : (int)t.size() - 1)];
    out.errors += "program_source:" + std::to_string(tok.line) + ":" + std::to_string(tok.column) +
                  ": error: " + text + "\n";
}

int Rewriter::next(int i) const
{
    for (++i; i < (int)t.size(); ++i)
        if (t[(size_t)i].kind != Kind::kSpace && t[(size_t)i].kind != Kind::kDirective &&
            !t[(size_t)i].text.empty())
            return i;
    return (int)t.size();
}

int Rewriter::before(int i) const
{
    for (--i; i >= 0; --i)
        if (t[(size_t)i].kind != Kind::kSpace && t[(size_t)i].kind != Kind::kDirective &&
            !t[(size_t)i].text.empty())
            return i;
    return -1;
}

bool Rewriter::is(int i, const char *s) const
{
    return i >= 0 && i < (int)t.size() && t[(size_t)i].text == s;
}

int Rewriter::match(int i) const
{
    const std::string open = t[(size_t)i].text;
    const char *close = open == "(" ? ")" : open == "[" ? "]" : open == "{" ? "}" : ">";
    int depth = 0;
    for (; i < (int)t.size(); ++i) {
        const std::string &s = t[(size_t)i].text;
        if (open == "<" && (s == "(" || s == "[" || s == "{")) {
            i = match(i);
            continue;
        }
        if (open == "<" && (s == ";" || s == ")"))
            break;
        if (s == open)
            ++depth;
        else if (s == close && --depth == 0)
            return i;
    }
    return (int)t.size();
}

void Rewriter::blank(int from, int to)
{
    for (int i = from; i < to && i < (int)t.size(); ++i) {
        std::string keep;
        for (char c : t[(size_t)i].text)
            if (c == '\n')
                keep += c;
        t[(size_t)i].kind = Kind::kSpace;
        t[(size_t)i].text = keep.empty() ? std::string() : keep;
    }
}

// Includes and Metal's pragmas are taken out; anything that needs a preprocessor
// is left to one.
void Rewriter::directives(bool preprocessed)
{
    bool library = preprocessed;
    for (const Token &tok : t)
        if (tok.kind == Kind::kDirective && !preprocessed) {
            size_t p = tok.text.find_first_not_of(" \t", 1), e = p;
            while (e < tok.text.size() && isalpha((unsigned char)tok.text[e]))
                ++e;
            std::string word = p < e ? tok.text.substr(p, e - p) : "";
            if (!word.empty() && word != "include" && word != "pragma" && word != "line")
                out.needs_preprocessor = true;
        }
    for (int i = 0; i < (int)t.size(); ++i) {
        if (t[(size_t)i].kind != Kind::kDirective)
            continue;
        std::string s = t[(size_t)i].text;
        size_t p = s.find_first_not_of(" \t", 1);
        if (p == std::string::npos) {
            blank(i, i + 1);
            continue;
        }
        if (isdigit((unsigned char)s[p]))
            continue; // a line marker
        size_t e = p;
        while (e < s.size() && isalpha((unsigned char)s[e]))
            ++e;
        std::string word = s.substr(p, e - p), rest = s.substr(e);
        if (word == "include") {
            size_t a = rest.find_first_of("<\""), b = rest.find_last_of(">\"");
            std::string name = a != std::string::npos && b > a ? rest.substr(a + 1, b - a - 1) : "";
            if (!known_header(name) && name.compare(0, 5, "simd/") != 0)
                error(i, "'" + name + "' file not found");
            library = true;
            blank(i, i + 1);
        } else if (word == "pragma") {
            auto has = [&](const char *x) { return rest.find(x) != std::string::npos; };
            if (out.needs_preprocessor) {
                continue; // it may stand in a branch that is not taken
            } else if (has("METAL")) {
                if (has("math_mode") && has("safe"))
                    out.safe_math = true;
                if (has("contract") && has("off"))
                    out.contract_off = true;
                blank(i, i + 1);
            } else if (!has("unroll") && !has("clang") && !has("mark")) {
                error(i, "unknown pragma:" + rest);
            }
        }
    }
    if (!library)
        error(0, "the text does not include <metal_stdlib>");
}

void Rewriter::banned()
{
    for (int i = 0; i < (int)t.size(); ++i) {
        const Token &tok = t[(size_t)i];
        int n = next(i), b = before(i);
        if (tok.kind == Kind::kName) {
            const std::string &s = tok.text;
            if (kBanned.count(s))
                error(i, "'" + s + "' is not available in Metal");
            else if (kUnsupported.count(s))
                error(i, "'" + s + "' is not available here (compute on buffers only)");
            else if (s == "long" && is(n, "long"))
                error(i, "'long long' is not available in Metal");
            else if (s == "constexpr" && is(b, "if"))
                error(i, "'if constexpr' needs C++17");
            else if (s == "auto" && (is(n, "[")))
                error(i, "structured bindings need C++17");
            else if (s.compare(0, 2, "__") == 0 && s != "__attribute__" && s != "__restrict" &&
                     s.compare(0, 8, "__METAL_") != 0)
                error(i, "names that begin with two underscores are reserved: '" + s + "'");
        } else if (tok.is("[") && b >= 0 && n < (int)t.size()) {
            // A lambda: [ where an operand is expected.
            const Token &p = t[(size_t)b];
            if (p.is("=") || p.is("(") || p.is(",") || p.is("return") || p.is("{") || p.is(";") ||
                p.is("}"))
                error(i, "lambdas are not available in Metal");
        } else if (tok.is(".") && is(n, ".") && is(next(n), ".") && is(b, ")")) {
            int open = before(b);
            if (open >= 0 && (is(next(next(n)), ")")))
                error(i, "fold expressions need C++17");
        } else if (tok.kind == Kind::kNumber) {
            const std::string &s = tok.text;
            bool hex = s.size() > 1 && (s[1] == 'x' || s[1] == 'X');
            bool real = s.find('.') != std::string::npos || (!hex && s.find_first_of("eE") != std::string::npos);
            char last = s.back();
            if (real && (last == 'l' || last == 'L'))
                error(i, "'long double' is not available in Metal");
            if (!real && s.size() > 2 && (s.find("ll") != std::string::npos ||
                                          s.find("LL") != std::string::npos))
                error(i, "'long long' is not available in Metal");
        } else if (tok.kind == Kind::kString && tok.text[0] == '"') {
            bool allowed = false;
            for (int k = i; k >= 0 && k > i - 12; --k)
                allowed |= is(k, "host_name") || is(k, "static_assert") || is(k, ",");
            if (!allowed)
                error(i, "string literals are not available in Metal");
        }
    }
}

// Removes [[...]] and remembers what was in them.
void Rewriter::take_attributes()
{
    for (int i = 0; i < (int)t.size(); ++i) {
        if (!is(i, "[["))
            continue;
        int k = next(i), first = i;
        while (k < (int)t.size() && !is(k, "]")) {
            Attribute a;
            a.at = first;
            a.name = t[(size_t)k].text;
            int n = next(k);
            while (is(n, "::")) { // vendor attributes
                n = next(n);
                a.name += "::" + t[(size_t)n].text;
                n = next(n);
            }
            if (is(n, "(")) {
                int close = match(n);
                for (int j = next(n); j < close; j = next(j))
                    a.argument += t[(size_t)j].text;
                n = next(close);
            }
            attributes.push_back(a);
            k = is(n, ",") ? next(n) : n;
        }
        int end = next(k); // the second ]
        blank(i, end + 1);
    }
}

// float4(...) and vec<T, N>(...): clang lacks functional casts with several
// arguments.  Names given to vector types with using or typedef count too.
void Rewriter::constructors()
{
    for (const char *s : kScalars)
        for (const char *n : {"2", "3", "4"})
            vector_names.insert(std::string(s) + n);
    for (int i = 0; i < (int)t.size(); ++i) {
        if (is(i, "using") && is(next(next(i)), "=")) {
            int name = next(i), what = next(next(name));
            if (is(what, "metal") && is(next(what), "::"))
                what = next(next(what));
            if (what < (int)t.size() && (vector_names.count(t[(size_t)what].text) || is(what, "vec")))
                vector_names.insert(t[(size_t)name].text);
        } else if (is(i, "typedef")) {
            int what = next(i), end = i;
            while (end < (int)t.size() && !is(end, ";"))
                ++end;
            if (what < (int)t.size() && (vector_names.count(t[(size_t)what].text) || is(what, "vec")))
                vector_names.insert(t[(size_t)before(end)].text);
        }
    }
    for (int i = 0; i < (int)t.size(); ++i) {
        Token &tok = t[(size_t)i];
        if (tok.kind != Kind::kName || is(before(i), "operator") || is(before(i), "using"))
            continue;
        bool qualified = is(before(i), "::");
        if (vector_names.count(tok.text) && is(next(i), "(")) {
            int close = match(next(i));
            if (is(next(close), "{")) // a function of that name or type
                continue;
            tok.text = (qualified ? "__sm_mk<" : "metal::__sm_mk<") + tok.text + ">";
        } else if (tok.is("vec") && is(next(i), "<")) {
            int close = match(next(i));
            if (close < (int)t.size() && is(next(close), "(")) {
                tok.text = qualified ? "__sm_mk<metal::vec" : "metal::__sm_mk<metal::vec";
                t[(size_t)close].text = ">>";
            }
        }
    }
}

// `threadgroup float tile[32];` in a kernel becomes a reference to memory of the
// group: OpenCL allows such variables in __kernel functions only, and those can
// be neither templates nor take references.
void Rewriter::threadgroup_declarations()
{
    for (int i = 0; i < (int)t.size(); ++i) {
        if (!is(i, "threadgroup"))
            continue;
        int b = before(i);
        if (b < 0 || !(is(b, "{") || is(b, "}") || is(b, ";") || is(b, ":")))
            continue;
        int end = i;
        bool pointer = false;
        while (end < (int)t.size() && !is(end, ";") && !is(end, "=") && !is(end, "(")) {
            if (is(end, "[")) { // sizes may contain anything
                end = match(end) + 1;
                continue;
            }
            if (is(end, "<")) {
                int close = match(end);
                end = close < (int)t.size() ? close + 1 : end + 1;
                continue;
            }
            pointer |= is(end, "*") || is(end, "&") || is(end, "&&");
            ++end;
        }
        if (pointer || !is(end, ";"))
            continue;
        // Declarators start at the last name before the first [ , or ;
        int stop = next(i), name = -1;
        while (stop < end && !is(stop, "[") && !is(stop, ",")) {
            if (is(stop, "<")) {
                stop = next(match(stop));
                continue;
            }
            if (t[(size_t)stop].kind == Kind::kName)
                name = stop;
            stop = next(stop);
        }
        if (name < 0)
            continue;
        std::string type, text;
        for (int k = i + 1; k < name; ++k)
            type += t[(size_t)k].text == "\n" ? " " : t[(size_t)k].text;
        int k = name;
        while (k < end) {
            std::string variable = t[(size_t)k].text, sizes;
            for (k = next(k); k < end && !is(k, ","); ++k)
                sizes += t[(size_t)k].text;
            std::string n = std::to_string(threadgroup_variables++);
            text += "typedef " + type + " __sm_tg" + n + sizes + "; __local __sm_tg" + n + " &" +
                    variable + " = *(__local __sm_tg" + n +
                    " *)__sm_threadgroup_variable<(int)sizeof(__sm_tg" + n + "), " + n + ">();";
            if (is(k, ","))
                k = next(k);
        }
        blank(i, end + 1);
        t[(size_t)i].text = text + t[(size_t)i].text;
    }
}

void Rewriter::keywords()
{
    for (Token &tok : t) {
        if (tok.kind != Kind::kName)
            continue;
        auto space = kSpaces.find(tok.text);
        if (space != kSpaces.end())
            tok.text = space->second;
    }
}

void Rewriter::rename()
{
    for (Token &tok : t)
        if (tok.kind == Kind::kName && kRenamed.count(tok.text))
            tok.text += "_sm_name";
}

Translation translate(const std::string &source, const std::map<std::string, std::string> &values,
                      bool preprocessed)
{
    Rewriter r;
    r.out = Translation();
    r.t = tokenize(source);
    if (r.t.empty())
        r.t.push_back({Kind::kSpace, " ", 1, 1});
    r.directives(preprocessed);
    if (r.out.needs_preprocessor || !r.out.errors.empty()) {
        r.out.text = join(r.t); // without includes
        return r.out;
    }
    r.banned();
    if (!r.out.errors.empty())
        return r.out;
    r.take_attributes();
    r.rename();
    r.declarations(values);
    r.threadgroup_declarations();
    r.constructors();
    r.keywords();
    r.out.text = (preprocessed ? "" : "#line 1 \"program_source\"\n") + join(r.t) + "\n" +
                 r.wrappers();
    return r.out;
}

} // namespace sm
