/* SPDX-License-Identifier: Apache-2.0 */
/* check [options] FILE | "problem text" ... : runs problems every way and compares them with the oracle.
 *
 * Files hold one problem per line; # begins a comment. Options narrow what is run: --pass P, --config C, --isa I,
 * --threads N (1, 2, 3, 7), --budget BYTES, --seed S; --quick takes one kind of data and one budget of each, --halve half
 * of the instruction sets of each configuration, by turns.
 * Exit status 1 after a failure. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "testlib.h"
#include "trial.h"

static int check_file(FILE *file, const struct trial_filter *filter)
{
    char line[512];
    int lines = 0;
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "#\n")] = '\0';
        if (line[strspn(line, " \t")] == '\0')
            continue;
        for (size_t end = strlen(line); line[end - 1] == ' '; end--)
            line[end - 1] = '\0';
        trial_run(line, filter);
        lines++;
    }
    return lines;
}

static int read_pass(const char *name)
{
    for (int pass = OGP_FORWARD; pass <= OGP_GRAD_BIAS; pass++)
        if (strcmp(name, pass_name((enum ogp_pass)pass)) == 0)
            return 1 + pass;
    fprintf(stderr, "check: no pass '%s'\n", name);
    exit(2);
}

static int read_option(const char *name, const char *value, struct trial_filter *filter)
{
    if (strcmp(name, "--pass") == 0)
        filter->pass = read_pass(value);
    else if (strcmp(name, "--config") == 0)
        filter->config = value;
    else if (strcmp(name, "--isa") == 0)
        filter->isa = value;
    else if (strcmp(name, "--threads") == 0)
        filter->threads = atoi(value);
    else if (strcmp(name, "--budget") == 0)
        filter->budget = strtoll(value, NULL, 10);
    else if (strcmp(name, "--seed") == 0)
        filter->seed = strtoull(value, NULL, 10);
    else
        return 0;
    return 1;
}

int main(int argc, char **argv)
{
    struct trial_filter filter = {.seed = 1};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0) {
            filter.quick = 1;
            continue;
        }
        if (strcmp(argv[i], "--halve") == 0) {
            filter.halve = 1;
            continue;
        }
        if (strncmp(argv[i], "--", 2) == 0) {
            if (i + 1 == argc || !read_option(argv[i], argv[i + 1], &filter)) {
                fprintf(stderr, "check: cannot use '%s'\n", argv[i]);
                return 2;
            }
            i++;
            continue;
        }
        FILE *file = fopen(argv[i], "r");
        if (file) {
            EXPECT(check_file(file, &filter) > 0, "%s holds no problem", argv[i]);
            fclose(file);
        } else {
            trial_run(argv[i], &filter);
        }
    }
    trial_summary();
    trial_end();
    return test_end("check");
}
