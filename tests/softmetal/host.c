/* A host for thread sanitizer: calls `int f(void)` of a library.  Python is not
 * built with the sanitizer, so it cannot be the host. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    void *library = argc == 3 ? dlopen(argv[1], RTLD_NOW) : NULL;
    int (*function)(void) = library ? (int (*)(void))dlsym(library, argv[2]) : NULL;
    if (!function) {
        fprintf(stderr, "usage: host LIBRARY FUNCTION: %s\n", library ? argv[2] : dlerror());
        return 2;
    }
    return function();
}
