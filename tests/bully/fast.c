/* A machine whose clocks are fast by $FAST_PER_CENT: the ones that a lease is counted on, from
 * $FAST_SINCE (nanoseconds) on. Waiting for sockets takes its timeout on that clock, too, and so
 * do the timers of Tokio, which rest on it; else promises would end early and nobody would look. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const long long SECOND = 1000000000;

static long long setting(const char *name)
{
    const char *value = getenv(name);
    return value ? atoll(value) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
    if (syscall(SYS_clock_gettime, clock, time) != 0)
        return -1;
    if (clock == CLOCK_BOOTTIME || clock == CLOCK_MONOTONIC) {
        long long real = time->tv_sec * SECOND + time->tv_nsec;
        long long since = setting("FAST_SINCE");
        long long fast = real + (real - since) / 100 * setting("FAST_PER_CENT");
        time->tv_sec = fast / SECOND;
        time->tv_nsec = fast % SECOND;
    }
    return 0;
}

int epoll_wait(int epoll, struct epoll_event *events, int most, int timeout)
{
    if (timeout > 0)
        timeout = (long long)timeout * 100 / (100 + setting("FAST_PER_CENT"));
    return syscall(SYS_epoll_pwait, epoll, events, most, timeout, NULL, _NSIG / 8);
}
