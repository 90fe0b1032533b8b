/* Alarms: they ring if they are not freed in time, and not later. */
#include <check.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alarm.h"
#include "suite.h"

#define MS ((uint64_t)1000000)
#define HOUR (3600 * 1000 * MS)

enum { RUNG = 7 };

static void note(void *rung)
{
    ++*(int *)rung;
}

static void post(void *heard)
{
    sem_post(heard);
}

static void leave(void *argument)
{
    (void)argument;
    _exit(RUNG);
}

START_TEST(freed_in_time)
{
    struct np_alarm *alarm;
    int rung = 0;
    ck_assert_int_eq(np_alarm_new(&alarm, HOUR, note, &rung, NULL), NP_OK);
    np_alarm_free(alarm);
    np_alarm_free(NULL);
    ck_assert_int_eq(rung, 0);
}
END_TEST

START_TEST(rings)
{
    struct np_alarm *alarm;
    sem_t heard;
    ck_assert_int_eq(sem_init(&heard, 0, 0), 0);
    ck_assert_int_eq(np_alarm_new(&alarm, MS, post, &heard, NULL), NP_OK);
    ck_assert_int_eq(sem_wait(&heard), 0);
    np_alarm_free(alarm);
    ck_assert_int_ne(sem_trywait(&heard), 0); /* once */
    sem_destroy(&heard);
}
END_TEST

/* Plain variables: under -fsanitize=thread an alarm that still rings is reported as a race. */
START_TEST(freed_as_it_rings)
{
    for (int i = 0; i < 1000; i++) {
        struct np_alarm *alarm;
        int rung = 0;
        ck_assert_int_eq(np_alarm_new(&alarm, (uint64_t)i % 100 * 1000, note, &rung, NULL), NP_OK);
        np_alarm_free(alarm);
        ck_assert_int_le(rung, 1);
    }
}
END_TEST

/* A process that has set an alarm waits for a byte, which *go sends it; it ends with RUNG if the
 * alarm rings before, and with 0 if it was freed in time. */
static pid_t start(int *go, uint64_t limit_ns)
{
    struct np_alarm *alarm;
    int ends[2];
    pid_t child;
    char byte = 0;
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        close(ends[1]);
        if (np_alarm_new(&alarm, limit_ns, leave, NULL, NULL) != NP_OK ||
            write(ends[0], &byte, 1) != 1 || read(ends[0], &byte, 1) != 1)
            _exit(1);
        np_alarm_free(alarm);
        _exit(0);
    }
    close(ends[0]);
    *go = ends[1];
    ck_assert_int_ge(read(*go, &byte, 1), 0); /* 0: it has rung already */
    return child;
}

/* Of such a process, which is sent its byte if it is still there. */
static int finish(pid_t child, int go)
{
    int status;
    send(go, "", 1, MSG_NOSIGNAL);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    close(go);
    return WEXITSTATUS(status);
}

START_TEST(ends_a_process_that_waits)
{
    char byte;
    int go;
    pid_t child = start(&go, 10 * MS);
    ck_assert_int_eq(read(go, &byte, 1), 0); /* when it has ended */
    ck_assert_int_eq(finish(child, go), RUNG);
    child = start(&go, HOUR);
    ck_assert_int_eq(finish(child, go), 0);
}
END_TEST

/* As batch systems stop a job to let another one run: how long it is stopped is not how long it
 * waits. Afterwards there is a moment for an alarm that takes it so to ring. */
START_TEST(stopped)
{
    const struct timespec longer = {3, 0}, moment = {0, 100 * (long)MS};
    int go, status;
    pid_t child = start(&go, 2500 * MS);
    kill(child, SIGSTOP);
    ck_assert_int_eq(waitpid(child, &status, WUNTRACED), child);
    ck_assert(WIFSTOPPED(status));
    nanosleep(&longer, NULL);
    kill(child, SIGCONT);
    nanosleep(&moment, NULL);
    ck_assert_int_eq(finish(child, go), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("alarm");
    TCase *tests = suite_case(suite, "alarm");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, freed_in_time);
    tcase_add_test(tests, rings);
    tcase_add_test(tests, freed_as_it_rings);
    tcase_add_test(tests, ends_a_process_that_waits);
    tcase_add_test(tests, stopped);
    return suite_run(suite);
}
