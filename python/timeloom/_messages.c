/* Messages for Python, over libtimeloom: a part of the module of _timeline.c, which exports
 * the declarations in _timeline.h.
 */
#include "_timeline.h"

/* A number that may be None; -1 with an exception. */
static int number(PyObject *object, int64_t *value)
{
    if (object == Py_None)
        return 0;
    *value = PyLong_AsLongLong(object);
    return PyErr_Occurred() ? -1 : 1;
}

static PyObject *act_at_of(const timeloom_envelope *envelope)
{
    if (!envelope->acts)
        Py_RETURN_NONE;
    return PyLong_FromLongLong(envelope->act_at_ns);
}

/* ---- Seal, write, open ------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    timeloom_seal *seal;
} Seal;

static PyObject *seal_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"key", NULL};
    const char *key;
    Py_ssize_t key_bytes;
    timeloom_seal *made = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "y#:Seal", names, &key, &key_bytes))
        return NULL;
    int code = timeloom_seal_new(key, (size_t)key_bytes, &made);
    if (code != TIMELOOM_DONE) {
        PyErr_SetString(PyExc_ValueError, timeloom_last_error());
        return NULL;
    }
    Seal *self = (Seal *)timeline_new_object(type);
    if (!self) {
        timeloom_seal_free(made);
        return NULL;
    }
    self->seal = made;
    return (PyObject *)self;
}

static void seal_free(PyObject *self)
{
    timeloom_seal_free(((Seal *)self)->seal);
    timeline_free_object(self);
}

static PyType_Slot seal_slots[] = {{Py_tp_doc, "Seals what one party sends, and opens what others send with the same key."},
                                   {Py_tp_new, seal_new},
                                   {Py_tp_dealloc, seal_free},
                                   {0, NULL}};
PyType_Spec seal_spec = {"timeloom._timeline.Seal", sizeof(Seal), 0, Py_TPFLAGS_DEFAULT, seal_slots};
PyObject *seal_type;

/* NULL for None; returns 0 with an exception for an object that is not a Seal. */
static int seal_of(PyObject *object, const timeloom_seal **seal)
{
    *seal = NULL;
    if (object == Py_None)
        return 1;
    if (!PyObject_TypeCheck(object, (PyTypeObject *)seal_type)) {
        PyErr_SetString(PyExc_TypeError, "a Seal or None is wanted");
        return 0;
    }
    *seal = ((Seal *)object)->seal;
    return 1;
}

/* (seal or None, name, stamp, act_at_ns or None, payload) -> bytes */
PyObject *messages_write(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *sealing, *stamp, *act_at;
    const char *name, *payload;
    Py_ssize_t payload_bytes;
    const timeloom_seal *seal;
    timeloom_envelope envelope = {0};
    if (!PyArg_ParseTuple(args, "OsOOy#", &sealing, &name, &stamp, &act_at, &payload, &payload_bytes)
        || !seal_of(sealing, &seal))
        return NULL;
    const timeloom_stamp *sent = timeline_stamp(stamp);
    int acts = sent ? number(act_at, &envelope.act_at_ns) : -1;
    if (acts < 0)
        return NULL;
    envelope.sent = *sent;
    envelope.acts = (uint64_t)acts;
    envelope.payload = (const uint8_t *)payload;
    envelope.payload_bytes = (size_t)payload_bytes;
    size_t room = (size_t)payload_bytes + TIMELOOM_MESSAGE_OVERHEAD, length = 0;
    char *message = PyMem_Malloc(room);
    if (!message)
        return PyErr_NoMemory();
    int code = timeloom_message_write(seal, name, &envelope, message, room, &length);
    PyObject *made = code == TIMELOOM_DONE ? PyBytes_FromStringAndSize(message, (Py_ssize_t)length) : timeline_fail(code);
    PyMem_Free(message);
    return made;
}

/* (seal or None, name, message, since or None) -> (stamp, act_at_ns or None, payload) */
PyObject *messages_open(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *sealing, *after;
    const char *name, *message;
    Py_ssize_t message_bytes;
    const timeloom_seal *seal;
    const timeloom_stamp *since = NULL;
    timeloom_envelope envelope;
    if (!PyArg_ParseTuple(args, "Osy#O", &sealing, &name, &message, &message_bytes, &after)
        || !seal_of(sealing, &seal) || (after != Py_None && !(since = timeline_stamp(after))))
        return NULL;
    int code = timeloom_message_open(seal, name, message, (size_t)message_bytes, since, &envelope);
    if (code != TIMELOOM_DONE)
        return timeline_fail(code);
    return Py_BuildValue("(NNy#)", timeline_stamp_of(&envelope.sent), act_at_of(&envelope),
                         envelope.payload_bytes ? (const char *)envelope.payload : "",
                         (Py_ssize_t)envelope.payload_bytes);
}

/* ---- Channel ----------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    timeloom_channel *channel;
    /* Objects that may still be called: the timeline, and the subscribers. */
    PyObject *kept;
} Channel;

static void on_message(const timeloom_message *message, void *told)
{
    PyGILState_STATE state = PyGILState_Ensure();
    const timeloom_envelope *envelope = &message->envelope;
    PyObject *result = PyObject_CallFunction(
        told, "sy#NNNN", message->key, envelope->payload_bytes ? (const char *)envelope->payload : "",
        (Py_ssize_t)envelope->payload_bytes, timeline_stamp_of(&envelope->sent), timeline_stamp_of(&message->arrived),
        act_at_of(envelope), timeline_stamp_of(&message->acted));
    if (!result)
        PyErr_WriteUnraisable(told);
    Py_XDECREF(result);
    PyGILState_Release(state);
}

/* (timeline, prefix, listen, peers, key or None) */
static PyObject *channel_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *timeline, *peers;
    const char *prefix, *key;
    Py_ssize_t key_bytes;
    timeloom_place place = {0};
    if (kwargs && PyDict_Size(kwargs)) {
        PyErr_SetString(PyExc_TypeError, "no keywords");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "OssO!z#", &timeline, &prefix, &place.listen, &PyTuple_Type, &peers, &key, &key_bytes))
        return NULL;
    const timeloom_timeline *opened = timeline_of(timeline);
    if (!opened)
        return NULL;
    place.peer_count = (size_t)PyTuple_Size(peers);
    place.key = key;
    place.key_bytes = (size_t)key_bytes;
    PyObject *kept = Py_BuildValue("[O]", timeline);
    Channel *self = kept ? (Channel *)timeline_new_object(type) : NULL;
    const char **named = self ? PyMem_Calloc(place.peer_count + 1, sizeof *named) : NULL;
    int code = TIMELOOM_SYSTEM;
    if (self)
        self->kept = kept;
    else
        Py_XDECREF(kept);
    if (named) {
        size_t index = 0;
        while (index < place.peer_count && (named[index] = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(peers, (Py_ssize_t)index), NULL)))
            index++;
        place.peers = named;
        if (index == place.peer_count)
            code = timeloom_channel_open(opened, prefix, &place, &self->channel);
    }
    PyMem_Free(named);
    if (code == TIMELOOM_DONE)
        return (PyObject *)self;
    Py_XDECREF((PyObject *)self);
    return PyErr_Occurred() ? NULL : timeline_fail(code);
}

static PyObject *channel_close(PyObject *object, PyObject *unused)
{
    (void)unused;
    Channel *self = (Channel *)object;
    timeloom_channel *channel = self->channel;
    self->channel = NULL;
    /* A call under way needs the interpreter's lock, and closing waits for the call. */
    Py_BEGIN_ALLOW_THREADS
    timeloom_channel_close(channel);
    Py_END_ALLOW_THREADS
    Py_CLEAR(self->kept);
    Py_RETURN_NONE;
}

static void channel_free(PyObject *self)
{
    Py_XDECREF(channel_close(self, NULL));
    timeline_free_object(self);
}

/* (key, payload, act_at_ns or None) -> Stamp */
static PyObject *channel_publish(PyObject *self, PyObject *args)
{
    const char *key, *payload;
    Py_ssize_t payload_bytes;
    PyObject *act_at;
    int64_t act_at_ns = 0;
    timeloom_stamp sent;
    if (!PyArg_ParseTuple(args, "sy#O", &key, &payload, &payload_bytes, &act_at))
        return NULL;
    int acts = number(act_at, &act_at_ns);
    if (acts < 0)
        return NULL;
    int code = timeloom_channel_publish(((Channel *)self)->channel, key, payload, (size_t)payload_bytes,
                                        acts ? &act_at_ns : NULL, &sent);
    return code == TIMELOOM_DONE ? timeline_stamp_of(&sent) : timeline_fail(code);
}

/* (pattern, at_time, told) */
static PyObject *channel_subscribe(PyObject *object, PyObject *args)
{
    Channel *self = (Channel *)object;
    const char *pattern;
    int at_time;
    PyObject *told;
    if (!PyArg_ParseTuple(args, "spO", &pattern, &at_time, &told))
        return NULL;
    if (!self->kept)
        return timeline_fail(timeloom_channel_subscribe(NULL, pattern, at_time, on_message, told));
    if (PyList_Append(self->kept, told) < 0)
        return NULL;
    int code = timeloom_channel_subscribe(self->channel, pattern, at_time, on_message, told);
    if (code != TIMELOOM_DONE)
        return timeline_fail(code);
    Py_RETURN_NONE;
}

static PyObject *channel_counts(PyObject *self, PyObject *unused)
{
    (void)unused;
    uint64_t unproved, dropped;
    int code = timeloom_channel_counts(((Channel *)self)->channel, &unproved, &dropped);
    if (code != TIMELOOM_DONE)
        return timeline_fail(code);
    return Py_BuildValue("(KK)", (unsigned long long)unproved, (unsigned long long)dropped);
}

static PyObject *channel_port(PyObject *self, void *unused)
{
    (void)unused;
    uint16_t port;
    int code = timeloom_channel_port(((Channel *)self)->channel, &port);
    return code == TIMELOOM_DONE ? PyLong_FromLong(port) : timeline_fail(code);
}

static PyMethodDef channel_methods[] = {
    {"close", channel_close, METH_NOARGS, "Ends it; what still waited for its time is dropped. Not from a callback."},
    {"_publish", channel_publish, METH_VARARGS, NULL},
    {"_subscribe", channel_subscribe, METH_VARARGS, NULL},
    {"_counts", channel_counts, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL}};
static PyGetSetDef channel_fields[] = {{"port", channel_port, NULL, "Where messages come.", NULL}, {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot channel_slots[] = {{Py_tp_new, channel_new},
                                      {Py_tp_dealloc, channel_free},
                                      {Py_tp_methods, channel_methods},
                                      {Py_tp_getset, channel_fields},
                                      {0, NULL}};
PyType_Spec channel_spec = {"timeloom._timeline.Channel", sizeof(Channel), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                            channel_slots};
