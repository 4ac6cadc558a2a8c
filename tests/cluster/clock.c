/* The lease clock of a machine (CLOCK_BOOTTIME) with another rate, or ahead after a suspension that
 * no other clock counted: from $CLOCK_SINCE (nanoseconds) on it has $CLOCK_PER_MILLE of the real
 * rate, and it is ahead by the number of seconds in the file $CLOCK_AHEAD. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const long long SECOND = 1000000000;

static long long setting(const char *name)
{
    const char *value = getenv(name);
    return value ? atoll(value) : 0;
}

static long ahead(void)
{
    const char *path = getenv("CLOCK_AHEAD");
    char text[32] = {0};
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return 0;
    long seconds = read(file, text, sizeof text - 1) > 0 ? atol(text) : 0;
    close(file);
    return seconds;
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
    if (syscall(SYS_clock_gettime, clock, time) != 0)
        return -1;
    if (clock == CLOCK_BOOTTIME) {
        long long real = time->tv_sec * SECOND + time->tv_nsec;
        long long since = setting("CLOCK_SINCE");
        if (since)
            real = since + (real - since) / 1000 * setting("CLOCK_PER_MILLE");
        time->tv_sec = real / SECOND + ahead();
        time->tv_nsec = real % SECOND;
    }
    return 0;
}
