#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/yaml.h"
#include "suite.h"

static struct np_yaml doc;
static struct np_error err;

static enum np_status read_text(const char *text)
{
    np_yaml_clear(&doc);
    return np_yaml_read_memory(&doc, text, strlen(text), "r.yaml", &err);
}

static void expect_refused(const char *text, const char *message)
{
    ck_assert_msg(read_text(text) == NP_EINPUT, "accepted: %s", text);
    ck_assert_str_eq(err.msg, message);
    ck_assert(!doc.root && !doc.places && !doc.node_count);
}

static void clear_doc(void)
{
    np_yaml_clear(&doc);
}

START_TEST(test_tree)
{
    const struct np_yaml_node *node;
    ck_assert_int_eq(read_text("a: 1\nb:\n  - x\n  - {c: 'd', e: []}\n# end\n"), NP_OK);
    ck_assert(doc.root->kind == NP_YAML_MAP && doc.root->count == 2 && doc.node_count == 7);
    node = doc.root->child;
    ck_assert_str_eq(node->key, "a");
    ck_assert_str_eq(node->text, "1");
    ck_assert(node->line == 1 && node->column == 4 && node->key_column == 1 && !node->quoted);
    node = node->next;
    ck_assert(node->kind == NP_YAML_LIST && node->count == 2 && !node->next);
    node = node->child->next;
    ck_assert(node->kind == NP_YAML_MAP && node->index == 1 && node->line == 4);
    ck_assert(node->child->quoted && node->child->next->kind == NP_YAML_LIST);
    ck_assert(node->child->next->count == 0 && !node->child->next->child);
    ck_assert_int_eq(read_text("\xef\xbb\xbf---\na: \xc3\xa9\n...\n"), NP_OK);
    ck_assert_str_eq(doc.root->child->text, "\xc3\xa9");
}
END_TEST

START_TEST(test_refused)
{
    expect_refused("", "r.yaml:1:1: the document is empty");
    expect_refused("# only a comment\n", "r.yaml:1:1: the document is empty");
    expect_refused("a: &x 1\n", "r.yaml:1:4: anchors are not allowed");
    expect_refused("a: &x [1]\n", "r.yaml:1:4: anchors are not allowed");
    expect_refused("a: *x\n", "r.yaml:1:4: aliases are not allowed");
    expect_refused("*x : 1\n", "r.yaml:1:1: aliases are not allowed");
    expect_refused("a: !!int 1\n", "r.yaml:1:4: tags are not allowed");
    expect_refused("a: ! 1\n", "r.yaml:1:4: tags are not allowed");
    expect_refused("a: !m {}\n", "r.yaml:1:4: tags are not allowed");
    expect_refused("a: !l []\n", "r.yaml:1:4: tags are not allowed");
    expect_refused("a: 1\n---\nb: 2\n", "r.yaml:2:1: a second document is not allowed");
    expect_refused("%YAML 1.1\n---\na: 1\n", "r.yaml:1:1: directives are not allowed");
    expect_refused("%TAG ! x:\n---\na: 1\n", "r.yaml:1:1: directives are not allowed");
    expect_refused("a: 1\nb: 2\na: 3\n", "r.yaml:3:1: duplicate key 'a'");
    expect_refused("{a: 1, 'a': 2}\n", "r.yaml:1:8: duplicate key 'a'");
    expect_refused("? [a]\n: 1\n", "r.yaml:1:3: a key must be a word, not a map or list");
    expect_refused("? {a: 1}\n: 1\n", "r.yaml:1:3: a key must be a word, not a map or list");
    expect_refused("'': 1\n", "r.yaml:1:1: a key is empty");
    expect_refused("? \n: 1\n", "r.yaml:1:2: a key is empty");
    expect_refused("a: \"x\\0y\"\n", "r.yaml:1:4: a text may not hold a NUL");
    expect_refused("a: 1\nb: \xff\n",
                   "r.yaml:2:4: not plain UTF-8 text: invalid leading UTF-8 octet");
    expect_refused("\xc3\xa9: \xc0\x80\n",
                   "r.yaml:1:4: not plain UTF-8 text: invalid length of a UTF-8 sequence");
    expect_refused("a: \x01\n",
                   "r.yaml:1:4: not plain UTF-8 text: control characters are not allowed");
    expect_refused("a: [1, 2\nb: 3\n", "r.yaml:2:2: did not find expected ',' or ']' while parsing "
                                       "a flow sequence from line 1");
    expect_refused("a: 'x\n", "r.yaml:2:1: found unexpected end of stream while scanning a quoted "
                              "scalar from line 1");
    expect_refused("a:\n\t- 1\n", "r.yaml:2:1: found character that cannot start any token while "
                                  "scanning for the next token from line 2");
}
END_TEST

START_TEST(test_nul_byte)
{
    ck_assert_int_eq(np_yaml_read_memory(&doc, "a: \0x", 5, "r.yaml", &err), NP_EINPUT);
    ck_assert_str_eq(err.msg,
                     "r.yaml:1:4: not plain UTF-8 text: control characters are not allowed");
}
END_TEST

START_TEST(test_every_cut)
{
    static const char text[] =
        "a: {b: [1, 'two', \"th\\u00e9\"]}\nc:\n  - d: |\n      x\n    e: >\n"
        "      y\n  - \xc3\xa9\xe2\x82\xac\n";
    for (size_t n = 0; n < sizeof text; n++) {
        np_yaml_clear(&doc);
        if (np_yaml_read_memory(&doc, text, n, "r.yaml", &err) != NP_OK)
            ck_assert_msg(strncmp(err.msg, "r.yaml:", 7) == 0, "%s", err.msg);
        for (int bit = 0; n < sizeof text - 1 && bit < 8; bit++) {
            char flipped[sizeof text];
            memcpy(flipped, text, sizeof text);
            flipped[n] ^= (char)(1 << bit);
            np_yaml_clear(&doc);
            np_yaml_read_memory(&doc, flipped, sizeof text - 1, "r.yaml", &err);
        }
    }
}
END_TEST

START_TEST(test_depth)
{
    char text[4000] = "";
    memset(text, '[', 64);
    memset(text + 64, ']', 64);
    ck_assert_int_eq(read_text(text), NP_OK);
    memset(text, '[', 65);
    memset(text + 65, ']', 65);
    expect_refused(text, "r.yaml:1:65: too many maps and lists inside each other");
    memset(text, '[', sizeof text - 1);
    expect_refused(text, "r.yaml:1:65: too many maps and lists inside each other");
    for (size_t i = 0; i + 4 < sizeof text; i += 3)
        memcpy(text + i, "{a:", 4);
    ck_assert_int_eq(read_text(text), NP_EINPUT);
}
END_TEST

START_TEST(test_counts)
{
    struct np_buf buf = {0};
    for (int i = 0; i <= NP_YAML_MAX_KEYS; i++)
        ck_assert_int_eq(np_buf_printf(&buf, &err, "k%d: 1\n", i), NP_OK);
    expect_refused(buf.text, "r.yaml:1025:1: too many keys in one map");
    buf.used = 0;
    for (int i = 0; i < NP_YAML_MAX_NODES - 1; i++)
        ck_assert_int_eq(np_buf_append(&buf, "- \n", 3, &err), NP_OK);
    ck_assert_int_eq(read_text(buf.text), NP_OK);
    ck_assert_uint_eq(doc.node_count, NP_YAML_MAX_NODES);
    ck_assert_int_eq(np_buf_append(&buf, "- \n", 3, &err), NP_OK);
    ck_assert_int_eq(read_text(buf.text), NP_EINPUT);
    ck_assert_ptr_nonnull(strstr(err.msg, ": too many values in one document"));
    ck_assert_int_eq(
        np_yaml_read_memory(&doc, buf.text, (size_t)NP_YAML_MAX_BYTES + 1, "r.yaml", &err),
        NP_EINPUT);
    ck_assert_str_eq(err.msg, "'r.yaml' is larger than 64 MiB");
    np_buf_clear(&buf);
}
END_TEST

/* The value of key `k` in a one-key document. */
static const struct np_yaml_node *value(const char *text)
{
    ck_assert_msg(read_text(text) == NP_OK, "%s", err.msg);
    return doc.root->child;
}

static void expect_message(const char *message)
{
    ck_assert_str_eq(err.msg, message);
    err.msg[0] = '\0';
}

START_TEST(test_numbers)
{
    int64_t i = 5;
    uint64_t u = 5;
    double d = 5;
    bool b = false;
    ck_assert_int_eq(np_yaml_get_int(value("k: -7"), &i, -10, 10, &err), NP_OK);
    ck_assert_int_eq(i, -7);
    ck_assert_int_eq(np_yaml_get_int(value("seed: abc"), &i, 0, INT64_MAX, &err), NP_EINPUT);
    expect_message("r.yaml:1:7: 'seed' must be a whole number from 0 to 2^63-1, not 'abc'");
    ck_assert_int_eq(np_yaml_get_int(value("k: '7'"), &i, INT64_MIN, 10, &err), NP_EINPUT);
    expect_message("r.yaml:1:4: 'k' must be a whole number from -2^63 to 10, not the quoted '7'");
    ck_assert_int_eq(np_yaml_get_uint(value("k: 99999999999999999999999"), &u, 0, UINT64_MAX, &err),
                     NP_EINPUT);
    expect_message("r.yaml:1:4: 'k' must be a whole number from 0 to 2^64-1, not "
                   "'99999999999999999999999'");
    ck_assert_int_eq(np_yaml_get_uint(value("k:"), &u, 1, 9, &err), NP_EINPUT);
    expect_message("r.yaml:1:3: 'k' must be a whole number from 1 to 9, not empty");
    ck_assert_int_eq(np_yaml_get_uint(value("k: [1]"), &u, 1, UINT32_MAX, &err), NP_EINPUT);
    expect_message("r.yaml:1:4: 'k' must be a whole number from 1 to 2^32-1, not a list");
    ck_assert_int_eq(np_yaml_get_double(value("k: 1.0e-3"), &d, 0, 1, NP_YAML_CLOSED, &err), NP_OK);
    ck_assert(d == 1e-3);
    ck_assert_int_eq(np_yaml_get_double(value("k: 0"), &d, 0, INFINITY, NP_YAML_OPEN_MIN, &err),
                     NP_EINPUT);
    expect_message("r.yaml:1:4: 'k' must be a number in (0, inf), not '0'");
    ck_assert_int_eq(np_yaml_get_double(value("k: 1"), &d, 0, 1, NP_YAML_OPEN_MAX, &err),
                     NP_EINPUT);
    expect_message("r.yaml:1:4: 'k' must be a number in [0, 1), not '1'");
    ck_assert_int_eq(np_yaml_get_double(value("k: .inf"), &d, 0, INFINITY, NP_YAML_OPEN, &err),
                     NP_EINPUT);
    ck_assert_int_eq(np_yaml_get_double(value("k: 1e999"), &d, 0, INFINITY, NP_YAML_OPEN, &err),
                     NP_EINPUT);
    ck_assert(u == 5 && d == 1e-3 && i == -7);
    ck_assert_int_eq(np_yaml_get_bool(value("k: true"), &b, &err), NP_OK);
    ck_assert(b);
    ck_assert_int_eq(np_yaml_get_bool(value("k: yes"), &b, &err), NP_EINPUT);
    expect_message("r.yaml:1:4: 'k' must be true or false, not 'yes'");
}
END_TEST

START_TEST(test_texts)
{
    static const char *const ops[] = {"mha", "ffn", "identity"};
    const char *text = NULL;
    int word = -1;
    ck_assert_int_eq(np_yaml_get_string(value("k: ''"), &text, &err), NP_OK);
    ck_assert_str_eq(text, "");
    ck_assert_int_eq(np_yaml_get_string(value("k: 12"), &text, &err), NP_OK);
    ck_assert_str_eq(text, "12");
    ck_assert_int_eq(np_yaml_get_string(value("k:"), &text, &err), NP_EINPUT);
    expect_message("r.yaml:1:3: 'k' must be a string, not empty");
    ck_assert_int_eq(np_yaml_get_string(value("k: {}"), &text, &err), NP_EINPUT);
    expect_message("r.yaml:1:4: 'k' must be a string, not a map");
    ck_assert_int_eq(np_yaml_get_word(value("op: identity"), &word, ops, 3, &err), NP_OK);
    ck_assert_int_eq(word, 2);
    ck_assert_int_eq(np_yaml_get_word(value("op: mah"), &word, ops, 3, &err), NP_EINPUT);
    expect_message("r.yaml:1:5: unknown op 'mah' (did you mean 'mha'?)");
    ck_assert_int_eq(np_yaml_get_word(value("op: \"\\e[2J\""), &word, ops, 3, &err), NP_EINPUT);
    expect_message("r.yaml:1:5: unknown op '\\x1b[2J' (known: mha, ffn, identity)");
    ck_assert_int_eq(word, 2);
}
END_TEST

START_TEST(test_lists)
{
    const struct np_yaml_node *item = NULL;
    uint64_t u;
    ck_assert_int_eq(np_yaml_get_list(value("k: [1, [2, x]]"), &item, 1, 2, &err), NP_OK);
    ck_assert_int_eq(np_yaml_get_uint(item, &u, 0, 9, &err), NP_OK);
    ck_assert_int_eq(np_yaml_get_uint(item->next->child->next, &u, 0, 9, &err), NP_EINPUT);
    expect_message("r.yaml:1:12: 'k.1.1' must be a whole number from 0 to 9, not 'x'");
    ck_assert_int_eq(np_yaml_get_list(value("k: []"), &item, 1, 2, &err), NP_EINPUT);
    expect_message("r.yaml:1:4: 'k' must have at least 1 item, not 0");
    ck_assert_int_eq(np_yaml_get_list(value("k: [1, 2, 3]"), &item, 1, 2, &err), NP_EINPUT);
    expect_message("r.yaml:1:4: 'k' must have at most 2 items, not 3");
    ck_assert_int_eq(np_yaml_get_list(value("k: [1, 2, 3]"), &item, 2, 2, &err), NP_EINPUT);
    expect_message("r.yaml:1:4: 'k' must have exactly 2 items, not 3");
    ck_assert_int_eq(np_yaml_get_list(value("k: 1"), &item, 1, 2, &err), NP_EINPUT);
    expect_message("r.yaml:1:4: 'k' must be a list, not '1'");
    ck_assert_int_eq(read_text("- a\n- b"), NP_OK);
    ck_assert_int_eq(np_yaml_get_uint(doc.root->child->next, &u, 0, 9, &err), NP_EINPUT);
    expect_message("r.yaml:2:3: '1' must be a whole number from 0 to 9, not 'b'");
}
END_TEST

START_TEST(test_read_file)
{
    char path[] = "/tmp/np-test-yaml-XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, "a: 1\n", 5), 5);
    ck_assert_int_eq(np_yaml_read(&doc, path, &err), NP_OK);
    ck_assert_str_eq(doc.root->child->text, "1");
    np_yaml_clear(&doc);
    ck_assert_int_eq(lseek(fd, 0, SEEK_SET), 0);
    ck_assert_int_eq(np_yaml_read_fd(&doc, fd, "<stdin>", &err), NP_OK);
    ck_assert_str_eq(doc.root->place, "<stdin>");
    np_yaml_clear(&doc);
    close(fd);
    unlink(path);
    ck_assert_int_eq(np_yaml_read(&doc, path, &err), NP_EIO);
    np_yaml_clear(NULL);
}
END_TEST

/* What is quoted reads back as itself. */
START_TEST(test_quote)
{
    static const char *const texts[] = {"plain",
                                        "a/b-c_1.txt",
                                        "",
                                        "12",
                                        "-1",
                                        "1e3",
                                        "true",
                                        "No",
                                        "~",
                                        "null",
                                        "a: b",
                                        "a #b",
                                        "'q'",
                                        "\"q\"",
                                        "back\\slash",
                                        "two\nlines\ttab",
                                        "\x01\x7f",
                                        "caf\xc3\xa9",
                                        "\xc2\x85",
                                        "\xe2\x80\xa8",
                                        "\xef\xbb\xbf",
                                        "\xf0\x9f\x98\x80",
                                        "[x",
                                        "{x}",
                                        " lead",
                                        "trail ",
                                        "*a",
                                        "&a",
                                        "!t",
                                        "%d",
                                        "@x",
                                        "`x",
                                        "-",
                                        "?",
                                        "---",
                                        "...",
                                        ".5",
                                        "0x1p3",
                                        "a,b"};
    static const char *const bad[] = {"\xff", "\xc0\x80", "\xed\xa0\x80", "\xe2\x82",
                                      "\xf5\x80\x80\x80"};
    struct np_buf buf = {0};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        buf.used = 0;
        ck_assert_int_eq(np_buf_printf(&buf, &err, "- "), NP_OK);
        ck_assert_int_eq(np_yaml_quote(&buf, texts[i], &err), NP_OK);
        ck_assert(i < 2 ? buf.text[2] != '"' : buf.text[2] == '"');
        ck_assert_msg(read_text(buf.text) == NP_OK, "%s: %s", buf.text, err.msg);
        ck_assert_str_eq(doc.root->child->text, texts[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        buf.used = 0;
        ck_assert_int_eq(np_buf_printf(&buf, &err, "- "), NP_OK);
        ck_assert_int_eq(np_yaml_quote(&buf, bad[i], &err), NP_EINPUT);
        ck_assert_str_eq(buf.text, "- ");
    }
    np_buf_clear(&buf);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("yaml");
    TCase *tests = suite_case(suite, "yaml");
    tcase_add_checked_fixture(tests, NULL, clear_doc);
    tcase_add_test(tests, test_tree);
    tcase_add_test(tests, test_refused);
    tcase_add_test(tests, test_nul_byte);
    tcase_add_test(tests, test_every_cut);
    tcase_add_test(tests, test_depth);
    tcase_add_test(tests, test_counts);
    tcase_add_test(tests, test_numbers);
    tcase_add_test(tests, test_texts);
    tcase_add_test(tests, test_lists);
    tcase_add_test(tests, test_read_file);
    tcase_add_test(tests, test_quote);
    return suite_run(suite);
}
