/* Graceful degradation for Python, over libtimeloom: a part of the module of
 * _timeline.c, which exports the declarations here.
 */
#include "_timeline.h"

typedef struct {
    PyObject_HEAD
    timeloom_degradation *machine;
} Degradation;

/* Returns the mode after an input, or raises the error of an invalid one. */
static PyObject *mode_of(int code, uint32_t mode)
{
    return code == TIMELOOM_DONE ? PyLong_FromUnsignedLong(mode) : timeline_fail(code);
}

/* (now_ns, keep: three lengths, regain: three lengths, hold_for_ns, steady_ns, blind_after_ns) */
static PyObject *degradation_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    long long now, at[9];
    if (kwargs && PyDict_Size(kwargs)) {
        PyErr_SetString(PyExc_TypeError, "no keywords");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "L(LLL)(LLL)LLL", &now, &at[0], &at[1], &at[2], &at[3], &at[4],
                          &at[5], &at[6], &at[7], &at[8]))
        return NULL;
    const timeloom_policy policy = {
        {at[0], at[1], at[2]}, {at[3], at[4], at[5]}, at[6], at[7], at[8]};
    timeloom_degradation *machine = NULL;
    int code = timeloom_degradation_new(&policy, now, &machine);
    if (code != TIMELOOM_DONE)
        return timeline_fail(code);
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Degradation *made = (Degradation *)alloc(type, 0);
    if (!made) {
        timeloom_degradation_free(machine);
        return NULL;
    }
    made->machine = machine;
    return (PyObject *)made;
}

static void degradation_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    timeloom_degradation_free(((Degradation *)self)->machine);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *degradation_read(PyObject *self, PyObject *args)
{
    long long now;
    PyObject *stamp;
    uint32_t mode = 0;
    if (!PyArg_ParseTuple(args, "LO", &now, &stamp))
        return NULL;
    const timeloom_stamp *read = timeline_stamp(stamp);
    if (!read)
        return NULL;
    int code = timeloom_degradation_read(((Degradation *)self)->machine, now, read, &mode);
    return mode_of(code, mode);
}

static PyObject *degradation_told(PyObject *self, PyObject *args)
{
    long long now;
    int met;
    unsigned int status;
    uint32_t mode = 0;
    if (!PyArg_ParseTuple(args, "LpI", &now, &met, &status))
        return NULL;
    const timeloom_change change = {(uint32_t)met, status, -1, -1, ""};
    int code = timeloom_degradation_told(((Degradation *)self)->machine, now, &change, &mode);
    return mode_of(code, mode);
}

#define SIMPLE(name)                                                                       \
    static PyObject *degradation_##name(PyObject *self, PyObject *at)                      \
    {                                                                                      \
        uint32_t mode = 0;                                                                 \
        long long now = PyLong_AsLongLong(at);                                             \
        if (PyErr_Occurred())                                                              \
            return NULL;                                                                   \
        int code = timeloom_degradation_##name(((Degradation *)self)->machine, now, &mode); \
        return mode_of(code, mode);                                                        \
    }
SIMPLE(withdraw)
SIMPLE(rejoined)
SIMPLE(wake)

static PyObject *degradation_next_wake(PyObject *self, void *unused)
{
    (void)unused;
    int64_t at_ns;
    int code = timeloom_degradation_next_wake(((Degradation *)self)->machine, &at_ns);
    if (code == TIMELOOM_VOID)
        Py_RETURN_NONE;
    return code == TIMELOOM_DONE ? PyLong_FromLongLong(at_ns) : timeline_fail(code);
}

static PyObject *degradation_reason(PyObject *self, void *unused)
{
    (void)unused;
    char words[160];
    int code = timeloom_degradation_reason(((Degradation *)self)->machine, words, sizeof words);
    return code == TIMELOOM_DONE ? PyUnicode_FromString(words) : timeline_fail(code);
}

static PyMethodDef methods[] = {
    {"_read", degradation_read, METH_VARARGS, NULL},
    {"_told", degradation_told, METH_VARARGS, NULL},
    {"_withdraw", degradation_withdraw, METH_O, NULL},
    {"_rejoined", degradation_rejoined, METH_O, NULL},
    {"_wake", degradation_wake, METH_O, NULL},
    {NULL, NULL, 0, NULL}};
static PyGetSetDef fields[] = {
    {"next_wake_ns", degradation_next_wake, NULL, "When wake is due; None when nothing changes by itself.", NULL},
    {"reason", degradation_reason, NULL, "Why the mode in force was entered, in words.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot slots[] = {{Py_tp_new, degradation_new},
                              {Py_tp_dealloc, degradation_free},
                              {Py_tp_methods, methods},
                              {Py_tp_getset, fields},
                              {0, NULL}};
PyType_Spec degradation_spec = {"timeloom._timeline.Degradation", sizeof(Degradation), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
