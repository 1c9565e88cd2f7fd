/* Linked into a bridge with -fsanitize=thread only: clang calls these around the
 * disposal of blocks, and the runtime for Linux lacks them. */
extern void AnnotateIgnoreReadsBegin(char *file, int line) __attribute__((weak));
extern void AnnotateIgnoreReadsEnd(char *file, int line) __attribute__((weak));
extern void AnnotateIgnoreWritesBegin(char *file, int line) __attribute__((weak));
extern void AnnotateIgnoreWritesEnd(char *file, int line) __attribute__((weak));

void __tsan_ignore_thread_begin(void);
void __tsan_ignore_thread_begin(void)
{
    if (AnnotateIgnoreReadsBegin && AnnotateIgnoreWritesBegin) {
        AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
        AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
    }
}

void __tsan_ignore_thread_end(void);
void __tsan_ignore_thread_end(void)
{
    if (AnnotateIgnoreReadsEnd && AnnotateIgnoreWritesEnd) {
        AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
        AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    }
}
