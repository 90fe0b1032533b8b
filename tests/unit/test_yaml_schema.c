/* What a document must hold, asked key by key, and single values set from outside. */
#include <check.h>
#include <string.h>

#include "io/yaml.h"
#include "suite.h"

static struct np_yaml doc;
static struct np_error err;

static enum np_status read_text(const char *text)
{
    np_yaml_clear(&doc);
    return np_yaml_read_memory(&doc, text, strlen(text), "r.yaml", &err);
}

static void clear_doc(void)
{
    np_yaml_clear(&doc);
}

static void expect_message(const char *message)
{
    ck_assert_str_eq(err.msg, message);
    err.msg[0] = '\0';
}

static enum np_status read_schema(uint64_t *steps, uint64_t *batch, double *lr)
{
    struct np_yaml_map root, train, optimizer;
    enum np_status status;
    NP_TRY(np_yaml_get_map(doc.root, &root, &err));
    NP_TRY(np_yaml_get_map(np_yaml_need(&root, "train"), &train, &err));
    NP_TRY(np_yaml_get_uint(np_yaml_need(&train, "steps"), steps, 1, 1000, &err));
    NP_TRY(np_yaml_get_uint(np_yaml_find(&train, "batch"), batch, 1, 64, &err));
    NP_TRY(np_yaml_get_map(np_yaml_find(&train, "optimizer"), &optimizer, &err));
    NP_TRY(np_yaml_get_double(np_yaml_find(&optimizer, "lr"), lr, 0, 1, NP_YAML_CLOSED, &err));
    NP_TRY(np_yaml_map_finish(&optimizer, &err));
    NP_TRY(np_yaml_map_finish(&train, &err));
    NP_TRY(np_yaml_map_finish(&root, &err));
out:
    return status;
}

static void expect_schema(const char *text, const char *message)
{
    uint64_t steps = 0, batch = 16;
    double lr = 0.5;
    ck_assert_int_eq(read_text(text), NP_OK);
    ck_assert_msg(read_schema(&steps, &batch, &lr) == NP_EINPUT, "accepted: %s", text);
    ck_assert_str_eq(err.msg, message);
}

START_TEST(test_schema)
{
    uint64_t steps = 0, batch = 16;
    double lr = 0.5;
    ck_assert_int_eq(read_text("train:\n  steps: 7\n"), NP_OK);
    ck_assert_int_eq(read_schema(&steps, &batch, &lr), NP_OK);
    ck_assert(steps == 7 && batch == 16 && lr == 0.5);
    ck_assert_int_eq(read_text("train: {optimizer: {lr: 0.25}, batch: 2, steps: 7}"), NP_OK);
    ck_assert_int_eq(read_schema(&steps, &batch, &lr), NP_OK);
    ck_assert(steps == 7 && batch == 2 && lr == 0.25);
    expect_schema("[]", "r.yaml:1:1: the document must be a map, not a list");
    expect_schema("trian: {}", "r.yaml:1:1: missing key 'train' (there is a key 'trian')");
    expect_schema("x: {}", "r.yaml:1:1: missing key 'train'");
    expect_schema("train: 1", "r.yaml:1:8: 'train' must be a map, not '1'");
    expect_schema("train:\n  batch: 1", "r.yaml:2:3: missing key 'steps' in 'train'");
    expect_schema("train:\n  steps: 1\n  optimzer: {lr: 1}",
                  "r.yaml:3:3: unknown key 'optimzer' (did you mean 'optimizer'?)");
    expect_schema("train:\n  steps: 1\n  <<: {lr: 1}",
                  "r.yaml:3:3: unknown key '<<' (known: steps, batch, optimizer)");
    expect_schema("train: {steps: 1}\nseed: 1", "r.yaml:2:1: unknown key 'seed' (known: train)");
}
END_TEST

START_TEST(test_absent_sections)
{
    struct np_yaml_map root, section;
    uint64_t u = 3;
    const struct np_yaml_node *item = NULL;
    ck_assert_int_eq(read_text("a: 1"), NP_OK);
    ck_assert_int_eq(np_yaml_get_map(doc.root, &root, &err), NP_OK);
    ck_assert_int_eq(np_yaml_get_map(np_yaml_find(&root, "sampler"), &section, &err), NP_OK);
    ck_assert_int_eq(np_yaml_get_uint(np_yaml_find(&section, "x"), &u, 0, 9, &err), NP_OK);
    ck_assert_int_eq(np_yaml_get_list(np_yaml_find(&section, "y"), &item, 1, 9, &err), NP_OK);
    ck_assert(u == 3 && !item);
    ck_assert_int_eq(np_yaml_get_uint(np_yaml_need(&section, "z"), &u, 0, 9, &err), NP_EINPUT);
    expect_message("r.yaml:1:1: missing key 'z' in 'sampler'");
    ck_assert_int_eq(np_yaml_map_finish(&section, &err), NP_OK);
    ck_assert_int_eq(np_yaml_map_finish(&root, &err), NP_EINPUT);
    expect_message("r.yaml:1:1: unknown key 'a' (known: sampler)");
}
END_TEST

START_TEST(test_set)
{
    uint64_t steps, batch = 16;
    double lr = 0.5;
    ck_assert_int_eq(read_text("train:\n  steps: 7\n  optimizer: {lr: 0.5}\n"), NP_OK);
    ck_assert_int_eq(np_yaml_set(&doc, "train.steps=200", &err), NP_OK);
    ck_assert_int_eq(np_yaml_set(&doc, "train.batch=8", &err), NP_OK);
    ck_assert_int_eq(np_yaml_set(&doc, "train.batch=9", &err), NP_OK);
    ck_assert_int_eq(np_yaml_set(&doc, "train.optimizer={lr: 0.125}", &err), NP_OK);
    ck_assert_msg(read_schema(&steps, &batch, &lr) == NP_OK, "%s", err.msg);
    ck_assert(steps == 200 && batch == 9 && lr == 0.125 && doc.node_count == 6);
    ck_assert_int_eq(np_yaml_set(&doc, "train.optimizer.lr=2", &err), NP_OK);
    ck_assert_int_eq(read_schema(&steps, &batch, &lr), NP_EINPUT);
    expect_message("--set train.optimizer.lr=2: 'lr' must be a number in [0, 1], not '2'");
    ck_assert_int_eq(np_yaml_set(&doc, "train.optimizer.lr=1", &err), NP_OK);
    ck_assert_int_eq(np_yaml_set(&doc, "train.stps=2", &err), NP_OK);
    ck_assert_int_eq(read_schema(&steps, &batch, &lr), NP_EINPUT);
    expect_message("--set train.stps=2: unknown key 'stps' (did you mean 'steps'?)");
}
END_TEST

START_TEST(test_set_list)
{
    ck_assert_int_eq(read_text("a: [1, {b: 2}, 3]"), NP_OK);
    ck_assert_int_eq(np_yaml_set(&doc, "a.1.b=[x, y]", &err), NP_OK);
    ck_assert_int_eq(np_yaml_set(&doc, "a.1.b.1='a=b'", &err), NP_OK);
    ck_assert_int_eq(np_yaml_set(&doc, "a.0={c: 1}", &err), NP_OK);
    ck_assert_int_eq(np_yaml_set(&doc, "a.2=", &err), NP_EINPUT);
    expect_message("--set a.2=: the value is empty");
    ck_assert_int_eq(doc.root->child->count, 3);
    ck_assert_str_eq(doc.root->child->child->child->key, "c");
    ck_assert_str_eq(doc.root->child->child->next->child->child->next->text, "a=b");
    ck_assert_str_eq(doc.root->child->child->next->next->text, "3");
    ck_assert(doc.node_count == 9);
}
END_TEST

START_TEST(test_set_refused)
{
    static const struct {
        const char *argument, *message;
    } cases[] = {
        {"train", "--set train: expected KEY=VALUE"},
        {"=1", "--set =1: a key is empty"},
        {"train..x=1", "--set train..x=1: a key is empty"},
        {"trian.steps=1", "--set trian.steps=1: there is no key 'trian' (did you mean 'train'?)"},
        {"xyz.steps=1", "--set xyz.steps=1: there is no key 'xyz'"},
        {"train.steps.x=1", "--set train.steps.x=1: 'steps' is not a map or list"},
        {"list.3=1", "--set list.3=1: '3' is not an index of a list of 3 items"},
        {"list.-1=1", "--set list.-1=1: '-1' is not an index of a list of 3 items"},
        {"list.x=1", "--set list.x=1: 'x' is not an index of a list of 3 items"},
        {"a=&x 1", "--set a=&x 1: anchors are not allowed"},
        {"a=[*x]", "--set a=[*x]: aliases are not allowed"},
        {"a=!!int 1", "--set a=!!int 1: tags are not allowed"},
        {"a=b: 1", "--set a=b: 1: the value must be a scalar, [a, list] or {a: map}"},
        {"a=- 1", "--set a=- 1: the value must be a scalar, [a, list] or {a: map}"},
        {"a={b: 1, b: 2}", "--set a={b: 1, b: 2}: duplicate key 'b'"},
        {"a=[1,", "--set a=[1,: did not find expected node content while parsing a flow node"},
        {"a=\xff", "--set a=\\xff: not plain UTF-8 text: invalid leading UTF-8 octet"},
    };
    char deep[200] = "a=";
    ck_assert_int_eq(read_text("train: {steps: 1}\nlist: [1, 2, 3]"), NP_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert_msg(np_yaml_set(&doc, cases[i].argument, &err) == NP_EINPUT, "%s",
                      cases[i].argument);
        ck_assert_str_eq(err.msg, cases[i].message);
        ck_assert(doc.node_count == 7 && doc.root->count == 2);
    }
    memset(deep + 2, '[', 64);
    memset(deep + 66, ']', 64);
    ck_assert_int_eq(np_yaml_set(&doc, deep, &err), NP_EINPUT);
    ck_assert_ptr_nonnull(strstr(err.msg, "too many maps and lists inside each other"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("yaml_schema");
    TCase *tests = suite_case(suite, "yaml_schema");
    tcase_add_checked_fixture(tests, NULL, clear_doc);
    tcase_add_test(tests, test_schema);
    tcase_add_test(tests, test_absent_sections);
    tcase_add_test(tests, test_set);
    tcase_add_test(tests, test_set_list);
    tcase_add_test(tests, test_set_refused);
    return suite_run(suite);
}
