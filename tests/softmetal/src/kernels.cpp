// Finds kernels and their parameters, and writes the wrappers that run them.
#include "rewrite.h"
#include "core.h"

#include <cctype>
#include <cstdlib>

namespace sm {

namespace {

const std::set<std::string> kSimdNames = {
    "simd_sum", "simd_product", "simd_min", "simd_max", "simd_and", "simd_or", "simd_xor",
    "simd_prefix_inclusive_sum", "simd_prefix_exclusive_sum", "simd_prefix_inclusive_product",
    "simd_prefix_exclusive_product", "simd_broadcast", "simd_broadcast_first", "simd_shuffle",
    "simd_shuffle_up", "simd_shuffle_down", "simd_shuffle_xor", "simd_shuffle_rotate_up",
    "simd_shuffle_rotate_down", "simd_shuffle_and_fill_up", "simd_shuffle_and_fill_down",
    "quad_sum", "quad_min", "quad_max", "quad_broadcast", "quad_shuffle_xor", "simd_ballot",
    "simd_active_threads_mask", "simd_any", "simd_all", "simd_is_first",
};
const std::set<std::string> kMatrixNames = {
    "simdgroup_matrix", "simdgroup_float8x8", "simdgroup_half8x8", "simdgroup_load",
    "simdgroup_store", "simdgroup_multiply", "simdgroup_multiply_accumulate",
    "make_filled_simdgroup_matrix",
};

#define P3(f) "__g->" f "[0], __g->" f "[1], __g->" f "[2]"
#define THREADS(f) "(__g->" f "[0] * __g->" f "[1] * __g->" f "[2])"
const std::map<std::string, std::string> kBuiltins = {
    {"thread_position_in_grid", "__g->group[0] * __g->nominal[0] + __x, __g->group[1] * __g->nominal[1] + __y, "
                                "__g->group[2] * __g->nominal[2] + __z"},
    {"threads_per_grid", P3("threads")},
    {"thread_position_in_threadgroup", "__x, __y, __z"},
    {"threads_per_threadgroup", P3("size")},
    {"dispatch_threads_per_threadgroup", P3("nominal")},
    {"threadgroup_position_in_grid", P3("group")},
    {"threadgroups_per_grid", P3("groups")},
    {"thread_index_in_threadgroup", "__index, 0, 0"},
    {"thread_index_in_simdgroup", "__index % __g->simd_width, 0, 0"},
    {"simdgroup_index_in_threadgroup", "__index / __g->simd_width, 0, 0"},
    {"threads_per_simdgroup", "__g->simd_width, 0, 0"},
    {"thread_execution_width", "__g->simd_width, 0, 0"},
    {"simdgroups_per_threadgroup",
     "(" THREADS("size") " + __g->simd_width - 1) / __g->simd_width, 0, 0"},
    {"dispatch_simdgroups_per_threadgroup",
     "(" THREADS("nominal") " + __g->simd_width - 1) / __g->simd_width, 0, 0"},
    {"thread_index_in_quadgroup", "__index % 4, 0, 0"},
    {"quadgroup_index_in_threadgroup", "__index / 4, 0, 0"},
    {"quadgroups_per_threadgroup", "(" THREADS("size") " + 3) / 4, 0, 0"},
};
const std::set<std::string> kOtherAttributes = {
    "kernel", "host_name", "max_total_threads_per_threadgroup", "function_constant", "buffer",
    "threadgroup", "maybe_unused", "nodiscard", "unroll", "likely", "unlikely", "fallthrough",
    "deprecated",
};

bool number(const std::string &s, int &v)
{
    if (s.empty())
        return false;
    for (char c : s)
        if (!isdigit((unsigned char)c))
            return false;
    v = atoi(s.c_str());
    return true;
}

} // namespace

unsigned Rewriter::uses(const std::string &name) const
{
    unsigned flags = 0;
    std::set<std::string> seen = {name};
    std::vector<std::string> todo = {name};
    while (!todo.empty()) {
        std::string n = todo.back();
        todo.pop_back();
        if (n == "threadgroup_barrier")
            flags |= SM_USES_BARRIER;
        if (kSimdNames.count(n) || n == "simdgroup_barrier")
            flags |= n == "simdgroup_barrier" ? SM_USES_BARRIER : SM_USES_SIMD;
        if (kMatrixNames.count(n))
            flags |= SM_USES_MATRIX;
        auto it = mentions.find(n);
        if (it == mentions.end())
            continue;
        for (const std::string &m : it->second)
            if (seen.insert(m).second)
                todo.push_back(m);
    }
    return flags;
}

// The parameters between ( and ).
bool Rewriter::parameters(KernelInfo &k, int open, int close)
{
    std::set<int> buffers, groups;
    struct Raw {
        int from, to;
        std::string what, argument;
        bool space, indirection, local;
    };
    std::vector<Raw> raw;
    int low = open + 1, from = next(open);
    while (from < close) {
        int to = from;
        while (to < close && !is(to, ",")) {
            if (is(to, "<") || is(to, "(") || is(to, "[")) {
                int m = match(to);
                to = m < close ? m + 1 : to + 1;
            } else {
                ++to;
            }
        }
        Raw r = {from, to, "", "", false, false, false};
        for (int i = from; i < to; ++i) {
            r.space |= is(i, "device") || is(i, "constant");
            r.local |= is(i, "threadgroup");
            r.indirection |= is(i, "*") || is(i, "&");
        }
        for (const Attribute &a : attributes)
            if (a.at >= low && a.at < to && (a.name == "buffer" || a.name == "threadgroup" ||
                                                  kBuiltins.count(a.name))) {
                if (!r.what.empty())
                    error(from, "a parameter with two attributes: " + r.what + ", " + a.name);
                r.what = a.name;
                r.argument = a.argument;
            }
        raw.push_back(r);
        low = to + 1;
        from = is(to, ",") ? next(to) : close;
    }
    for (Raw &r : raw) {
        int n = -1;
        if (r.what == "buffer" || r.what == "threadgroup") {
            if (!number(r.argument, n)) {
                error(r.from, "the index of [[" + r.what + "]] must be a number");
                return false;
            }
            if (n >= SM_MAX_BUFFERS) {
                error(r.from, "'" + r.what + "' attribute parameter is out of bounds: must be "
                              "between 0 and 30");
                return false;
            }
            if (!r.indirection || (r.what == "buffer" ? !r.space : !r.local)) {
                error(r.from, "[[" + r.what + "]] needs a pointer or reference to " +
                              (r.what == "buffer" ? "device or constant" : "threadgroup") +
                              " memory");
                return false;
            }
            std::set<int> &used = r.what == "buffer" ? buffers : groups;
            if (!used.insert(n).second) {
                error(r.from, "two parameters with [[" + r.what + "(" + r.argument + ")]]");
                return false;
            }
        }
    }
    for (Raw &r : raw) {
        int n = 0;
        if (r.what.empty()) {
            if (!r.indirection || !(r.space || r.local)) {
                error(r.from, "a parameter of kernel '" + k.name + "' needs an attribute");
                return false;
            }
            r.what = r.space ? "buffer" : "threadgroup";
            std::set<int> &used = r.space ? buffers : groups;
            while (used.count(n))
                ++n;
            used.insert(n);
            if (n >= SM_MAX_BUFFERS) {
                error(r.from, "more than 31 buffers in kernel '" + k.name + "'");
                return false;
            }
        } else if (!number(r.argument, n)) {
            n = 0;
        }
        k.parameters.push_back({r.what, n});
    }
    return true;
}

// A declaration at namespace scope that has `kernel` or [[kernel]].
void Rewriter::kernel(int from, int to, const std::string &scope)
{
    KernelInfo k = KernelInfo();
    std::string host_name;
    for (const Attribute &a : attributes)
        if (a.at >= from && a.at <= to) {
            int n;
            if (a.name == "host_name" && a.argument.size() > 2)
                host_name = a.argument.substr(1, a.argument.size() - 2);
            if (a.name == "max_total_threads_per_threadgroup" && number(a.argument, n))
                k.max_threads = (unsigned)n;
        }
    int i = next(from - 1);
    bool is_template = false, instantiation = false;
    if (is(i, "template")) {
        int n = next(i);
        if (is(n, "<")) {
            is_template = true;
            i = next(match(n));
        } else {
            instantiation = true;
            i = n;
        }
    }
    // The name: in front of ( or of the template arguments.
    int name = -1, open = -1;
    if (instantiation) {
        int last = -1; // f<...> that is followed by ( or ends the declaration
        for (int j = i; j < to; j = next(j)) {
            if (is(j, "decltype")) {
                j = match(next(j));
                continue;
            }
            if (t[(size_t)j].kind == Kind::kName && is(next(j), "<")) {
                last = j;
                break;
            }
        }
        if (last < 0)
            return error(from, "an explicit instantiation of a kernel needs template arguments");
        int close = match(next(last));
        auto primary = templates.find(t[(size_t)last].text);
        if (primary == templates.end())
            return error(last, "no kernel template '" + t[(size_t)last].text + "'");
        std::string arguments;
        for (int j = next(last); j <= close && j < (int)t.size(); ++j)
            arguments += t[(size_t)j].text;
        unsigned limit = k.max_threads;
        k = primary->second;
        if (limit)
            k.max_threads = limit;
        k.function += arguments;
        if (host_name.empty())
            return error(from, "an explicit instantiation of a kernel needs [[host_name]]");
        k.name = host_name;
        out.kernels.push_back(k);
        blank(from, to + 1); // the wrapper instantiates it
        return;
    }
    for (int j = i; j < to; j = next(j))
        if (is(j, "(")) {
            if (is(before(j), "__attribute__")) {
                j = match(j);
                continue;
            }
            open = j;
            name = before(j);
            break;
        }
    if (open < 0 || t[(size_t)name].kind != Kind::kName)
        return error(from, "cannot read this kernel declaration");
    int type = before(name);
    if (!is(type, "void"))
        return error(name, "kernel '" + t[(size_t)name].text + "' must return void");
    k.name = host_name.empty() ? t[(size_t)name].text : host_name;
    size_t suffix = k.name.rfind("_sm_name");
    if (suffix != std::string::npos)
        k.name.resize(suffix);
    k.function = scope + t[(size_t)name].text;
    bool marked = false;
    for (int j = i; j < name; ++j)
        if (is(j, "kernel")) {
            t[(size_t)j].text = "inline __attribute__((always_inline))";
            marked = true;
        }
    if (!marked)
        t[(size_t)type].text = "inline __attribute__((always_inline)) void";
    if (!is(to, "{"))
        return; // declared only
    if (!parameters(k, open, match(open)))
        return;
    k.uses = uses(t[(size_t)name].text);
    if (is_template) {
        templates[t[(size_t)name].text] = k;
        return;
    }
    for (const KernelInfo &other : out.kernels)
        if (other.name == k.name)
            return error(name, "redefinition of kernel '" + k.name + "'");
    out.kernels.push_back(k);
}

// `constant T name [[function_constant(n)]];` gets its value.
void Rewriter::function_constant(int from, int to, const std::map<std::string, std::string> &values)
{
    for (const Attribute &a : attributes) {
        if (a.at < from || a.at > to || a.name != "function_constant")
            continue;
        Constant c;
        if (!number(a.argument, c.index))
            return error(from, "the index of [[function_constant]] must be a number");
        int name = before(to);
        c.name = t[(size_t)name].text;
        for (int i = from; i < name; ++i)
            if (t[(size_t)i].kind == Kind::kName && !is(i, "constant") && !is(i, "const"))
                c.type += t[(size_t)i].text;
        auto v = values.find(a.argument);
        if (v == values.end())
            v = values.find(c.name);
        t[(size_t)name].text += " = " + (v == values.end() ? "(" + c.type + ")0" : v->second);
        for (int i = 0; i < (int)t.size(); ++i)
            if (is(i, "is_function_constant_defined") && is(next(next(i)), c.name.c_str())) {
                int close = match(next(i));
                blank(i + 1, close + 1);
                t[(size_t)i].text = v == values.end() ? "false" : "true";
            }
        out.constants.push_back(c);
    }
}

// Walks over the text: first what each function mentions, then every
// declaration at namespace scope.
void Rewriter::declarations(const std::map<std::string, std::string> &values)
{
    for (const Attribute &a : attributes)
        if (!kBuiltins.count(a.name) && !kOtherAttributes.count(a.name) &&
            a.name.find("::") == std::string::npos)
            error(a.at, "unknown attribute '" + a.name + "'");
    for (int pass = 0; pass < 2; ++pass) {
        std::vector<std::string> scopes;
        int start = 0; // right behind the last declaration
        int i = next(-1);
        while (i < (int)t.size()) {
            if (is(i, "(") || is(i, "[")) {
                i = next(match(i));
                continue;
            }
            if (is(i, "}")) {
                if (!scopes.empty())
                    scopes.pop_back();
                start = i + 1;
                i = next(i);
                continue;
            }
            if (is(i, ";") || is(i, "{")) {
                bool is_namespace = false, is_kernel = false, is_class = false;
                int open = -1;
                for (int j = start; j < i; j = next(j)) {
                    is_namespace |= is(j, "namespace");
                    is_kernel |= is(j, "kernel");
                    if (is(j, "(") && open < 0 && !is(before(j), "__attribute__"))
                        open = j;
                    if (open < 0)
                        is_class |= is(j, "struct") || is(j, "class") || is(j, "union");
                    if (is(j, "template") && is(next(j), "<"))
                        j = match(next(j));
                }
                for (const Attribute &a : attributes)
                    is_kernel |= a.at >= start && a.at <= i && a.name == "kernel";
                if (is_namespace && is(i, "{")) {
                    std::string name = is(before(i), "namespace") ? "" : t[(size_t)before(i)].text;
                    scopes.push_back(name);
                    start = i + 1;
                    i = next(i);
                    continue;
                }
                if (pass == 0 && is(i, "{")) {
                    int end = match(i);
                    std::string name;
                    if (is_class) {
                        for (int j = start; j < i; j = next(j))
                            if (is(j, "struct") || is(j, "class") || is(j, "union"))
                                name = t[(size_t)next(j)].text;
                    } else if (open >= 0) {
                        int n = before(open);
                        if (n >= 0)
                            name = t[(size_t)n].text;
                    }
                    if (!name.empty())
                        for (int j = start; j < end && j < (int)t.size(); ++j)
                            if (t[(size_t)j].kind == Kind::kName)
                                mentions[name].insert(t[(size_t)j].text);
                }
                if (pass == 1 && is_kernel) {
                    std::string scope;
                    for (const std::string &s : scopes)
                        if (!s.empty())
                            scope += s + "::";
                    int end = is(i, "{") ? match(i) : i;
                    kernel(start, i, scope);
                    start = end + 1;
                    i = next(end);
                    continue;
                }
                if (pass == 1 && is(i, ";"))
                    function_constant(start, i, values);
                int end = is(i, "{") ? match(i) : i;
                start = end + 1;
                i = next(end);
                continue;
            }
            i = next(i);
        }
    }
}

std::string Rewriter::wrappers()
{
    // decltype of a function counts as taking its address.
    std::string s = "\n#line 1 \"wrappers\"\n#pragma OPENCL EXTENSION __cl_clang_function_pointers : "
                    "enable\n", table;
    for (size_t n = 0; n < out.kernels.size(); ++n) {
        const KernelInfo &k = out.kernels[n];
        std::string id = std::to_string(n), args, call;
        for (size_t p = 0; p < k.parameters.size(); ++p) {
            const auto &q = k.parameters[p];
            std::string type = "__sm::arg<" + std::to_string(p) + ", __F>::type";
            if (!call.empty())
                call += ", ";
            if (q.what == "buffer" || q.what == "threadgroup") {
                std::string m = "__sm::memory<" + type + ">";
                std::string index = std::to_string(q.index);
                args += "{" + m + "::kind, " + index + ", " + m + "::bytes, " + m + "::align, " + m +
                        "::readonly}, ";
                call += m + "::make(__g->" + (q.what == "buffer" ? "buffer" : "threadgroup_arg") +
                        "[" + index + "])";
            } else {
                call += "__sm::place<__sm::plain<" + type + ">::type>::make(" +
                        kBuiltins.at(q.what) + ")";
            }
        }
        s += "typedef decltype(" + k.function + ") __sm_f" + id + ";\n";
        std::string with = args;
        size_t at = 0;
        while ((at = with.find("__F>", at)) != std::string::npos)
            with.replace(at, 3, "__sm_f" + id), at += 4;
        s += "extern \"C\" __constant __sm::argument __sm_args_" + id + "[] = {" + with +
             "{0, 0, 0, 0, 0}};\n";
        s += "extern \"C\" void __sm_run_" + id +
             "(const __global __sm_group *__g, uint __z, uint __y, uint __x0, uint __x1) {\n"
             "typedef __sm_f" + id + " __F;\nuint __row = (__z * __g->size[1] + __y) * __g->size[0];\n";
        if (k.uses)
            s += "uint __x = __x0, __index = __row + __x;\n" + k.function + "(" + call + ");\n}\n";
        else
            s += "for (uint __x = __x0; __x < __x1; ++__x) {\nuint __index = __row + __x; (void)__index;\n" +
                 k.function + "(" + call + ");\n}\n}\n";
        table += k.name + " " + std::to_string(k.uses) + " " + std::to_string(k.max_threads) +
                 "\\n";
    }
    for (const Constant &c : out.constants)
        table += "! " + std::to_string(c.index) + " " + c.type + " " + c.name + "\\n";
    s += "extern \"C\" __constant char __sm_table[] = \"" + table + "\";\n";
    if (threadgroup_variables)
        s += "extern \"C\" { extern __constant uint __start_sm_tg[1]; extern __constant uint "
             "__stop_sm_tg[1];\nulong __sm_tg_range(uint end) { return end ? (ulong)__stop_sm_tg : "
             "(ulong)__start_sm_tg; } }\n";
    s += "#ifdef SM_TRACE\n"
         "extern \"C\" void __sm_trace(ulong p, uint size, uint write);\n"
         "#define SM_HOOK(n) \\\n"
         "extern \"C\" __attribute__((visibility(\"hidden\"), no_sanitize(\"coverage\"))) "
         "void __sanitizer_cov_load##n(ulong p) { __sm_trace(p, n, 0); } \\\n"
         "extern \"C\" __attribute__((visibility(\"hidden\"), no_sanitize(\"coverage\"))) "
         "void __sanitizer_cov_store##n(ulong p) { __sm_trace(p, n, 1); }\n"
         "SM_HOOK(1) SM_HOOK(2) SM_HOOK(4) SM_HOOK(8) SM_HOOK(16)\n#endif\n";
    return s;
}

} // namespace sm
