/* Linked into the static binary (packaging/binary.sh).
 *
 * glibc would load the modules that /etc/nsswitch.conf names, such as systemd, mdns4_minimal or sss,
 * from the system. They bring a second glibc into the process, which then crashes. The static binary
 * therefore looks names up in files and by DNS alone, whatever that file says. */
#include <nss.h>

__attribute__((constructor)) static void look_up_in_files_and_dns(void) {
    __nss_configure_lookup("passwd", "files");
    __nss_configure_lookup("group", "files");
    __nss_configure_lookup("initgroups", "files");
    __nss_configure_lookup("services", "files");
    __nss_configure_lookup("protocols", "files");
    __nss_configure_lookup("hosts", "files dns");
}
