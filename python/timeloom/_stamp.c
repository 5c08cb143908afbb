/* A reading of a timeline: a part of the module of _timeline.c, which exports the declarations
 * in _timeline.h.
 */
#include "_timeline.h"

PyObject *stamp_type;

typedef struct {
    PyObject_HEAD
    timeloom_stamp stamp;
} Stamp;

PyObject *timeline_stamp_of(const timeloom_stamp *stamp)
{
    Stamp *made = PyObject_New(Stamp, (PyTypeObject *)stamp_type);
    if (made)
        made->stamp = *stamp;
    return (PyObject *)made;
}

static PyObject *stamp_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"timeline_high", "timeline_low", "status", "earliest_ns", "estimate_ns", "latest_ns", NULL};
    timeloom_stamp stamp = {0, 0, 0, 0, 0, 0, 0};
    long long earliest, estimate, latest;
    unsigned long long high, low;
    unsigned int status;
    PyObject *ends[3] = {Py_None, Py_None, Py_None};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "KKI|OOO:Stamp", names, &high, &low, &status,
                                     &ends[0], &ends[1], &ends[2]))
        return NULL;
    stamp.timeline_high = high;
    stamp.timeline_low = low;
    stamp.status = status;
    if (ends[0] != Py_None) {
        earliest = PyLong_AsLongLong(ends[0]);
        estimate = PyErr_Occurred() ? 0 : PyLong_AsLongLong(ends[1]);
        latest = PyErr_Occurred() ? 0 : PyLong_AsLongLong(ends[2]);
        if (PyErr_Occurred())
            return NULL;
        if (earliest > estimate || estimate > latest) {
            PyErr_SetString(PyExc_ValueError, "an interval must satisfy earliest <= estimate <= latest");
            return NULL;
        }
        stamp.earliest_ns = earliest;
        stamp.estimate_ns = estimate;
        stamp.latest_ns = latest;
        stamp.bounded = 1;
    }
    Stamp *made = timeline_new_object(type);
    if (made)
        made->stamp = stamp;
    return (PyObject *)made;
}

/* Without an interval there is no number, rather than a wrong one. */
#define NUMBER(field)                                                                      \
    static PyObject *stamp_##field(PyObject *self, void *unused)                           \
    {                                                                                      \
        (void)unused;                                                                      \
        const timeloom_stamp *stamp = &((Stamp *)self)->stamp;                             \
        if (!stamp->bounded)                                                               \
            Py_RETURN_NONE;                                                                \
        return PyLong_FromLongLong(stamp->field);                                          \
    }
NUMBER(earliest_ns)
NUMBER(estimate_ns)
NUMBER(latest_ns)

static PyObject *stamp_status(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLong(((Stamp *)self)->stamp.status);
}

static PyObject *stamp_high(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(((Stamp *)self)->stamp.timeline_high);
}

static PyObject *stamp_low(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(((Stamp *)self)->stamp.timeline_low);
}

static int is_stamp(PyObject *object)
{
    if (PyObject_TypeCheck(object, (PyTypeObject *)stamp_type))
        return 1;
    PyErr_SetString(PyExc_TypeError, "a Stamp is wanted");
    return 0;
}

const timeloom_stamp *timeline_stamp(PyObject *object)
{
    return is_stamp(object) ? &((Stamp *)object)->stamp : NULL;
}

static PyObject *stamp_compare(PyObject *self, PyObject *other)
{
    int order;
    if (!is_stamp(other))
        return NULL;
    int code = timeloom_compare(&((Stamp *)self)->stamp, &((Stamp *)other)->stamp, &order);
    return code == TIMELOOM_DONE ? PyLong_FromLong(order) : timeline_fail(code);
}

static PyObject *stamp_older(PyObject *self, PyObject *args)
{
    long long length;
    PyObject *now;
    int older;
    if (!PyArg_ParseTuple(args, "LO:certainly_older_than", &length, &now) || !is_stamp(now))
        return NULL;
    int code = timeloom_certainly_older(&((Stamp *)self)->stamp, length, &((Stamp *)now)->stamp, &older);
    return code == TIMELOOM_DONE ? PyBool_FromLong(older) : timeline_fail(code);
}

static PyObject *stamp_repr(PyObject *self)
{
    const timeloom_stamp *stamp = &((Stamp *)self)->stamp;
    const char *status = timeloom_status_text(stamp->status);
    if (!stamp->bounded)
        return PyUnicode_FromFormat("<no interval: %s>", status);
    return PyUnicode_FromFormat("<%lld ns -%lld +%lld, %s>", (long long)stamp->estimate_ns,
                                (long long)(stamp->estimate_ns - stamp->earliest_ns),
                                (long long)(stamp->latest_ns - stamp->estimate_ns), status);
}

static PyGetSetDef stamp_fields[] = {
    {"earliest_ns", stamp_earliest_ns, NULL, "True time is not before this; None without an interval.", NULL},
    {"estimate_ns", stamp_estimate_ns, NULL, "The best single value; None without an interval.", NULL},
    {"latest_ns", stamp_latest_ns, NULL, "True time is not after this; None without an interval.", NULL},
    {"status", stamp_status, NULL, "A number of timeloom.timeline.Status.", NULL},
    {"timeline_high", stamp_high, NULL, "Upper half of the timeline's id.", NULL},
    {"timeline_low", stamp_low, NULL, "Lower half of the timeline's id.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyMethodDef stamp_methods[] = {
    {"compare", stamp_compare, METH_O, "-1 when certainly before the other, 1 when after, 0 when uncertain."},
    {"certainly_older_than", stamp_older, METH_VARARGS, "Whether certainly more than length_ns lies between this and now."},
    {NULL, NULL, 0, NULL}};

static PyType_Slot stamp_slots[] = {
    {Py_tp_doc, "A reading of a timeline."}, {Py_tp_new, stamp_new},         {Py_tp_dealloc, timeline_free_object},
    {Py_tp_getset, stamp_fields},            {Py_tp_methods, stamp_methods}, {Py_tp_repr, stamp_repr},
    {0, NULL}};
PyType_Spec stamp_spec = {"timeloom._timeline.Stamp", sizeof(Stamp), 0, Py_TPFLAGS_DEFAULT, stamp_slots};
