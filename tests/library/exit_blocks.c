/* An exit handler that never returns. */
#include <unistd.h>

__attribute__((destructor)) static void block(void)
{
    for (;;)
        pause();
}
