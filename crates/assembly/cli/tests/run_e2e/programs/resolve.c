// Resolves names and prints the duration by CLOCK_MONOTONIC.
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    char name[256];
    gethostname(name, sizeof name);
    printf("hostname %s\n", name);
    for (int i = 1; i < argc; i++) {
        struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *all = NULL;
        double before = now();
        int error = getaddrinfo(argv[i], NULL, &hints, &all);
        double took = now() - before;
        printf("%s", argv[i]);
        for (struct addrinfo *one = all; one; one = one->ai_next) {
            char text[128];
            getnameinfo(one->ai_addr, one->ai_addrlen, text, sizeof text, NULL, 0, NI_NUMERICHOST);
            printf(" %s", text);
        }
        printf("%s\n", error ? " unknown" : "");
        // A resolver with a timeout waits for at least one second.
        if (took >= 1)
            printf("%s took %.3f s\n", argv[i], took);
    }
    return 0;
}
