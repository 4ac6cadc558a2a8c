/* Cuts the power of an ext4 file system: no more data reaches its disk, not even from its journal. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>

#define SHUTDOWN _IOR('X', 125, unsigned int)
#define WITHOUT_FLUSHING_THE_LOG 2u

int main(int count, char **arguments)
{
    unsigned int how = WITHOUT_FLUSHING_THE_LOG;
    int folder = count == 2 ? open(arguments[1], O_RDONLY | O_DIRECTORY) : -1;
    if (folder < 0 || ioctl(folder, SHUTDOWN, &how) != 0) {
        perror("shutdown");
        return 1;
    }
    return 0;
}
