/* A driver is a list of named cases; each ends the process with status 1 and a line at the first failure. */
#ifndef TX_CHECK_H
#define TX_CHECK_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(cond)                                                              \
    do {                                                                         \
        if (!(cond)) {                                                           \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #cond); \
            _exit(1);                                                            \
        }                                                                        \
    } while (0)

#define CHECK_EQ(a, b)                                                                                        \
    do {                                                                                                      \
        long long a_ = (long long)(a), b_ = (long long)(b);                                                   \
        if (a_ != b_) {                                                                                       \
            fprintf(stderr, "%s:%d: %s is %lld, expected %s = %lld\n", __FILE__, __LINE__, #a, a_, #b, b_);   \
            _exit(1);                                                                                         \
        }                                                                                                     \
    } while (0)

typedef struct { const char *name; void (*run)(void); } test_case;

static int run_cases(const test_case *cases, int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "--list")) {
        for (; cases->name; cases++)
            puts(cases->name);
        return 0;
    }
    for (; argc > 1 && cases->name; cases++)
        if (!strcmp(cases->name, argv[1])) {
            cases->run();
            return 0;
        }
    fprintf(stderr, "no such case\n");
    return 2;
}
#endif
