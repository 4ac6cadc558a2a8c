/* A wall clock that is off by the seconds in the file $WALL_CLOCK_OFF_BY. The other clocks are right. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long long off_by(void)
{
    const char *path = getenv("WALL_CLOCK_OFF_BY");
    FILE *file = path ? fopen(path, "r") : NULL;
    long long seconds = 0;
    if (file) {
        if (fscanf(file, "%lld", &seconds) != 1)
            seconds = 0;
        fclose(file);
    }
    return seconds;
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
    if (syscall(SYS_clock_gettime, clock, time) != 0)
        return -1;
    if (clock == CLOCK_REALTIME)
        time->tv_sec += off_by();
    return 0;
}
