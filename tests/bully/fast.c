/* A machine whose lease clocks are fast by $FAST_PER_CENT per cent, from $FAST_SINCE (nanoseconds)
 * on. Waiting for sockets, and so the timers of Tokio, use the same clock: otherwise promises would
 * end early without a timer that notices it. */
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
