/* Runs a program and logs every change of its address space, as the kernel sees it.
 *
 *     witness LOG PROGRAM ARGS...
 *
 * A seccomp filter stops the program, its threads and children at mmap, munmap,
 * mremap and brk only, so that everything else runs at full speed.  A call of
 * lseek on descriptor -777 is a mark.  One line per call:
 *
 *     <process> <name> <result> <arg 0> ... <arg 3>
 *
 * Exits as the program does, with 99 where the kernel does not allow any of this.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <linux/filter.h>
#include <linux/ptrace.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MARK_FD ((uint32_t)-777)
#define UNAVAILABLE 99

static const struct { int nr; const char *name; } calls[] = {
    {SYS_mmap, "mmap"}, {SYS_munmap, "munmap"}, {SYS_mremap, "mremap"}, {SYS_brk, "brk"}, {SYS_lseek, "mark"},
};
enum { NCALLS = sizeof calls / sizeof calls[0], MAX_TASKS = 4096 };

typedef struct { pid_t tid; int inside; uint64_t nr, args[4]; } task;
static task tasks[MAX_TASKS];

static task *task_of(pid_t tid, int *is_new)
{
    task *unused = NULL;
    for (int i = 0; i < MAX_TASKS; i++) {
        if (tasks[i].tid == tid)
            return &tasks[i];
        if (!tasks[i].tid && !unused)
            unused = &tasks[i];
    }
    if (!unused) {
        fprintf(stderr, "witness: too many threads\n");
        exit(UNAVAILABLE);
    }
    memset(unused, 0, sizeof *unused);
    unused->tid = tid;
    *is_new = 1;
    return unused;
}

static long trace(long request, pid_t tid, void *addr, uintptr_t data)
{
    return syscall(SYS_ptrace, request, tid, addr, data);
}

static pid_t process_of(pid_t tid)
{
    char path[64], line[128];
    pid_t pid = tid;
    snprintf(path, sizeof path, "/proc/%d/status", tid);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "Tgid: %d", &pid) == 1)
            break;
    if (f)
        fclose(f);
    return pid;
}

static void start(char **argv)
{
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define IF_EQUAL(k, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(k), yes, no)
    struct sock_filter code[] = {
        LOAD(nr),
        IF_EQUAL(SYS_mmap, 6, 0),
        IF_EQUAL(SYS_munmap, 5, 0),
        IF_EQUAL(SYS_mremap, 4, 0),
        IF_EQUAL(SYS_brk, 3, 0),
        IF_EQUAL(SYS_lseek, 0, 3),
        LOAD(args[0]), /* the low half, on the byte orders we run on */
        IF_EQUAL(MARK_FD, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof code[0], code};
    if (trace(PTRACE_TRACEME, 0, NULL, 0))
        _exit(UNAVAILABLE);
    raise(SIGSTOP);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        _exit(UNAVAILABLE);
    execvp(argv[0], argv);
    perror(argv[0]);
    _exit(127);
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: witness LOG PROGRAM ARGS...\n");
        return 2;
    }
    FILE *log = fopen(argv[1], "w");
    if (!log) {
        perror(argv[1]);
        return 2;
    }
    int status, is_new;
    pid_t first = fork();
    if (first == 0)
        start(argv + 2);
    if (first < 0 || waitpid(first, &status, 0) != first || !WIFSTOPPED(status))
        return UNAVAILABLE;
    task_of(first, &is_new);
    const uintptr_t options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |
                              PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
    if (trace(PTRACE_SETOPTIONS, first, NULL, options) || trace(PTRACE_CONT, first, NULL, 0)) {
        kill(first, SIGKILL);
        return UNAVAILABLE;
    }
    int result = UNAVAILABLE;
    for (;;) {
        pid_t tid = waitpid(-1, &status, __WALL);
        if (tid < 0) {
            if (errno == EINTR)
                continue;
            break;
        }
        is_new = 0;
        task *t = task_of(tid, &is_new);
        if (!WIFSTOPPED(status)) {
            t->tid = 0;
            if (tid == first)
                result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
            continue;
        }
        int sig = WSTOPSIG(status), event = status >> 16;
        long how = PTRACE_CONT;
        uintptr_t deliver = 0;
        struct ptrace_syscall_info info;
        if (event == PTRACE_EVENT_SECCOMP || sig == (SIGTRAP | 0x80)) {
            if (trace(PTRACE_GET_SYSCALL_INFO, tid, (void *)sizeof info, (uintptr_t)&info) <= 0) {
                if (errno == ESRCH)
                    continue; /* killed meanwhile */
                kill(first, SIGKILL);
                return UNAVAILABLE;
            }
            if (event == PTRACE_EVENT_SECCOMP) {
                t->inside = 1;
                t->nr = info.seccomp.nr;
                for (int i = 0; i < 4; i++)
                    t->args[i] = info.seccomp.args[i];
                how = PTRACE_SYSCALL; /* stop again when it returns */
            } else if (t->inside && info.op == PTRACE_SYSCALL_INFO_EXIT) {
                t->inside = 0;
                for (int i = 0; i < NCALLS; i++)
                    if ((uint64_t)calls[i].nr == t->nr)
                        fprintf(log, "%d %s %lld %llu %llu %llu %llu\n", process_of(tid), calls[i].name,
                                (long long)info.exit.rval, (unsigned long long)t->args[0],
                                (unsigned long long)t->args[1], (unsigned long long)t->args[2],
                                (unsigned long long)t->args[3]);
            }
        } else if (event == 0 && !(sig == SIGSTOP && is_new)) {
            deliver = (uintptr_t)sig;
        }
        trace(how, tid, NULL, deliver);
    }
    if (fclose(log))
        return 2;
    return result;
}
