/* A wall clock that was set: CLOCK_REALTIME is ahead by the number of seconds in the file
 * $WALL_CLOCK_AHEAD, which may be negative. No other clock changes. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long ahead(void)
{
    const char *path = getenv("WALL_CLOCK_AHEAD");
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
    if (clock == CLOCK_REALTIME)
        time->tv_sec += ahead();
    return 0;
}
