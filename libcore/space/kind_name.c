#include <stdio.h>
#include <string.h>

#include "space/op_fields.h"
#include "space/supernet.h"

static void add(char *out, const char *key, const char *value)
{
    size_t used = strlen(out);
    snprintf(out + used, NP_KIND_NAME - used, "%s%s%s%s", strchr(out, '(') ? "," : "(", key,
             *value ? "=" : "", value);
}

static void add_shape(char *out, const char *key, struct np_shape shape)
{
    char text[NP_FIELD_TEXT];
    snprintf(text, sizeof text, "%dx%dx%d", shape.height, shape.width, shape.channels);
    add(out, key, text);
}

static void add_number(char *out, const char *key, int number)
{
    char text[NP_FIELD_TEXT];
    snprintf(text, sizeof text, "%d", number);
    add(out, key, text);
}

/* Channels that it reads and makes, where those are not all. */
static void add_channels(char *out, const struct np_kind *kind)
{
    if (kind->reads)
        add_number(out, "reads", kind->reads);
    if (kind->makes)
        add_number(out, "makes", kind->makes);
}

/* What else tells kinds of one spec apart. Of sequences that is the length, where it is not the
 * target's; all have one width. */
static void add_surroundings(char *out, const struct np_op_fields *op, const struct np_kind *kind)
{
    bool images = kind->image.channels > 0;
    if (kind->spec.source)
        add(out, "source", "");
    if (images && kind->in.channels)
        add_shape(out, "in", kind->in);
    if (images && op->role != NP_ROLE_HEAD)
        add_shape(out, "out", kind->out);
    if (!images && (size_t)kind->out.width != kind->length)
        add_number(out, "length", kind->out.width);
    if (kind->memory.channels && images)
        add_shape(out, "memory", kind->memory);
    else if (kind->memory.channels)
        add_number(out, "memory", kind->memory.width);
    if (kind->padded)
        add(out, "padded", kind->padded == NP_PADDED_SOURCE ? "source" : "target");
    add_channels(out, kind);
    if (kind->summed)
        add(out, "sum", "");
}

static const struct np_op_fields *fields_of(const struct np_kind *kind)
{
    const struct np_op_fields *op = NULL;
    if (!kind->in.channels)
        op = np_op_fields(kind->spec.op, NP_ROLE_STEM);
    if (!op)
        op = np_op_fields(kind->spec.op, NP_ROLE_CHOICE);
    return op ? op : np_op_fields(kind->spec.op, NP_ROLE_HEAD);
}

static void begin(char *out, const struct np_op_fields *op, const struct np_layer_spec *spec)
{
    char text[NP_FIELD_TEXT];
    snprintf(out, NP_KIND_NAME, "%s", op->name);
    for (int i = 0; i < NP_FIELD_COUNT; i++) {
        enum np_field field = (enum np_field)i;
        if (field != NP_FIELD_MEMORY && (np_op_has(op, field) || field == NP_FIELD_STRIDE) &&
            np_field_text(text, op, spec, field, true))
            add(out, np_field_name(field), text);
    }
}

static void end(char *out)
{
    if (strchr(out, '('))
        strncat(out, ")", NP_KIND_NAME - strlen(out) - 1);
}

void np_kind_name(const struct np_kind *kind, char *out)
{
    const struct np_op_fields *op = fields_of(kind);
    char whole[NP_KIND_NAME];
    begin(out, op, &kind->spec);
    add_surroundings(out, op, kind);
    if (kind->whole) {
        begin(whole, op, &kind->whole->spec);
        add_channels(whole, kind->whole);
        end(whole);
        add(out, "part_of", whole);
    }
    end(out);
}
