/* Timelines for Python: the types that must be fast, over libtimeloom.
 *
 * A reading is one object that holds the C structure; its numbers become Python
 * integers on access, and most readers access one of them. The
 * rest of the interface is Python (timeloom/timeline.py), where it is slow anyway.
 *
 * Limited API of Python 3.11: one build serves later versions. Built by
 * build_timeline.py against libtimeloom.a, so that nothing is looked up at run time.
 */
#include "_timeline.h"

static PyObject *error_type, *binding_type, *timer_type, *timeline_type;

PyObject *timeline_fail(int code)
{
    PyObject *value = Py_BuildValue("(is)", code, timeloom_last_error());
    if (value) {
        PyErr_SetObject(error_type, value);
        Py_DECREF(value);
    }
    return NULL;
}

void *timeline_new_object(PyTypeObject *type)
{
    return ((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
}

void timeline_free_object(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* ---- Callbacks --------------------------------------------------------------------- */

/* Calls `function` with new arguments from a thread of the library. An exception
 * is printed: there is no caller to catch it. */
static void call(PyObject *function, PyObject *arguments)
{
    PyObject *result = arguments ? PyObject_CallObject(function, arguments) : NULL;
    if (!result)
        PyErr_WriteUnraisable(function);
    Py_XDECREF(result);
    Py_XDECREF(arguments);
}

static void on_change(const timeloom_change *change, void *function)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *arguments = Py_BuildValue("(NILLs)", PyBool_FromLong(change->met), change->status,
                                        (long long)change->below_ns, (long long)change->above_ns, change->reason);
    call(function, arguments);
    PyGILState_Release(state);
}

static PyObject *woken_of(const timeloom_woken *woken)
{
    PyObject *stamp = timeline_stamp_of(&woken->stamp);
    return stamp ? Py_BuildValue("(LLN)", (long long)woken->target_ns, (long long)woken->overshoot_ns, stamp) : NULL;
}

static void on_timer(int result, const timeloom_woken *woken, void *function)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *arguments = woken ? Py_BuildValue("(iN)", result, woken_of(woken))
                                : Py_BuildValue("(is)", result, timeloom_last_error());
    call(function, arguments);
    PyGILState_Release(state);
}

/* ---- Binding and Timer ------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    timeloom_binding *binding;
    PyObject *timeline, *told;
} Binding;

typedef struct {
    PyObject_HEAD
    timeloom_timer *timer;
    PyObject *timeline, *fire;
} Timer;

/* A call under way needs the interpreter's lock, and closing waits for the call. */
static void end_binding(Binding *self)
{
    timeloom_binding *binding = self->binding;
    self->binding = NULL;
    Py_BEGIN_ALLOW_THREADS
    timeloom_unbind(binding);
    Py_END_ALLOW_THREADS
    Py_CLEAR(self->told);
    Py_CLEAR(self->timeline);
}

static void end_timer(Timer *self)
{
    timeloom_timer *timer = self->timer;
    self->timer = NULL;
    Py_BEGIN_ALLOW_THREADS
    timeloom_timer_cancel(timer);
    Py_END_ALLOW_THREADS
    Py_CLEAR(self->fire);
    Py_CLEAR(self->timeline);
}

static void binding_free(PyObject *self)
{
    end_binding((Binding *)self);
    timeline_free_object(self);
}

static void timer_free(PyObject *self)
{
    end_timer((Timer *)self);
    timeline_free_object(self);
}

static PyObject *binding_unbind(PyObject *self, PyObject *unused)
{
    (void)unused;
    end_binding((Binding *)self);
    Py_RETURN_NONE;
}

static PyObject *timer_cancel(PyObject *self, PyObject *unused)
{
    (void)unused;
    end_timer((Timer *)self);
    Py_RETURN_NONE;
}

static PyObject *binding_get(PyObject *self, PyObject *unused)
{
    (void)unused;
    timeloom_requirement need;
    int code;
    Py_BEGIN_ALLOW_THREADS
    code = timeloom_get_requirement(((Binding *)self)->binding, &need);
    Py_END_ALLOW_THREADS
    if (code != TIMELOOM_DONE)
        return timeline_fail(code);
    return Py_BuildValue("(LLL)", (long long)need.below_ns, (long long)need.above_ns, (long long)need.resolution_ns);
}

static PyObject *binding_set(PyObject *self, PyObject *args)
{
    long long below, above, resolution;
    int code;
    if (!PyArg_ParseTuple(args, "LLL:set_requirement", &below, &above, &resolution))
        return NULL;
    timeloom_requirement need = {below, above, resolution};
    Py_BEGIN_ALLOW_THREADS
    code = timeloom_set_requirement(((Binding *)self)->binding, &need);
    Py_END_ALLOW_THREADS
    if (code != TIMELOOM_DONE)
        return timeline_fail(code);
    Py_RETURN_NONE;
}

static PyObject *binding_subscribe(PyObject *self, PyObject *told)
{
    Binding *binding = (Binding *)self;
    int code;
    PyObject *before = binding->told;
    Py_INCREF(told);
    binding->told = told;
    Py_BEGIN_ALLOW_THREADS
    code = timeloom_subscribe(binding->binding, on_change, told);
    Py_END_ALLOW_THREADS
    /* Only now has the last call of the previous one ended. */
    Py_XDECREF(before);
    if (code != TIMELOOM_DONE)
        return timeline_fail(code);
    Py_RETURN_NONE;
}

static PyMethodDef binding_methods[] = {
    {"unbind", binding_unbind, METH_NOARGS, "Ends the binding and its subscription."},
    {"_requirement", binding_get, METH_NOARGS, NULL},
    {"_set_requirement", binding_set, METH_VARARGS, NULL},
    {"_subscribe", binding_subscribe, METH_O, NULL},
    {NULL, NULL, 0, NULL}};
static PyType_Slot binding_slots[] = {
    {Py_tp_dealloc, binding_free}, {Py_tp_methods, binding_methods}, {0, NULL}};
static PyType_Spec binding_spec = {"timeloom._timeline.Binding", sizeof(Binding), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, binding_slots};

static PyMethodDef timer_methods[] = {
    {"cancel", timer_cancel, METH_NOARGS, "Cancels the timer and waits for a call under way."}, {NULL, NULL, 0, NULL}};
static PyType_Slot timer_slots[] = {{Py_tp_dealloc, timer_free}, {Py_tp_methods, timer_methods}, {0, NULL}};
static PyType_Spec timer_spec = {"timeloom._timeline.Timer", sizeof(Timer), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, timer_slots};

/* ---- Timeline ---------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    timeloom_timeline *timeline;
} Timeline;

const timeloom_timeline *timeline_of(PyObject *object)
{
    if (PyObject_TypeCheck(object, (PyTypeObject *)timeline_type))
        return ((Timeline *)object)->timeline;
    PyErr_SetString(PyExc_TypeError, "a Timeline is wanted");
    return NULL;
}

static PyObject *timeline_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"name", "directory", "page", "fd", NULL};
    const char *name = NULL, *directory = NULL, *page = NULL;
    int fd = -1, code;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|z$zzi:Timeline", names, &name, &directory, &page, &fd))
        return NULL;
    timeloom_timeline *opened = NULL;
    Py_BEGIN_ALLOW_THREADS
    if (page)
        code = timeloom_open_page(page, &opened);
    else if (fd >= 0)
        code = timeloom_open_fd(fd, &opened);
    else
        code = timeloom_open(name, directory, &opened);
    Py_END_ALLOW_THREADS
    if (code != TIMELOOM_DONE)
        return timeline_fail(code);
    Timeline *made = timeline_new_object(type);
    if (!made) {
        timeloom_close(opened);
        return NULL;
    }
    made->timeline = opened;
    return (PyObject *)made;
}

static void timeline_free(PyObject *self)
{
    timeloom_close(((Timeline *)self)->timeline);
    timeline_free_object(self);
}

static PyObject *timeline_read(PyObject *self, PyObject *unused)
{
    (void)unused;
    timeloom_stamp stamp;
    int code = timeloom_read(((Timeline *)self)->timeline, &stamp);
    return code == TIMELOOM_DONE ? timeline_stamp_of(&stamp) : timeline_fail(code);
}

static PyObject *timeline_read_strict(PyObject *self, PyObject *unused)
{
    (void)unused;
    timeloom_stamp stamp;
    int code = timeloom_read_strict(((Timeline *)self)->timeline, &stamp);
    return code == TIMELOOM_DONE ? timeline_stamp_of(&stamp) : timeline_fail(code);
}

static PyObject *timeline_event(PyObject *self, PyObject *unused)
{
    (void)unused;
    timeloom_stamp stamp;
    uint64_t ticks;
    int code = timeloom_event(((Timeline *)self)->timeline, &ticks, &stamp);
    if (code != TIMELOOM_DONE)
        return timeline_fail(code);
    return Py_BuildValue("(KN)", (unsigned long long)ticks, timeline_stamp_of(&stamp));
}

static PyObject *timeline_convert(PyObject *self, PyObject *ticks)
{
    timeloom_stamp stamp;
    int code;
    unsigned long long count = PyLong_AsUnsignedLongLong(ticks);
    if (PyErr_Occurred())
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    code = timeloom_convert(((Timeline *)self)->timeline, count, &stamp);
    Py_END_ALLOW_THREADS
    return code == TIMELOOM_DONE ? timeline_stamp_of(&stamp) : timeline_fail(code);
}

static PyObject *timeline_tai_offset(PyObject *self, void *unused)
{
    (void)unused;
    int32_t seconds;
    if (timeloom_tai_offset_s(((Timeline *)self)->timeline, &seconds) != TIMELOOM_DONE)
        Py_RETURN_NONE;
    return PyLong_FromLong(seconds);
}

static PyObject *timeline_wait_until(PyObject *self, PyObject *target)
{
    timeloom_woken woken;
    int code;
    long long target_ns = PyLong_AsLongLong(target);
    if (PyErr_Occurred())
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    code = timeloom_wait_until(((Timeline *)self)->timeline, target_ns, &woken);
    Py_END_ALLOW_THREADS
    return code == TIMELOOM_DONE ? woken_of(&woken) : timeline_fail(code);
}

static PyObject *timeline_sleep(PyObject *self, PyObject *length)
{
    timeloom_woken woken;
    int code;
    long long length_ns = PyLong_AsLongLong(length);
    if (PyErr_Occurred())
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    code = timeloom_sleep(((Timeline *)self)->timeline, length_ns, &woken);
    Py_END_ALLOW_THREADS
    return code == TIMELOOM_DONE ? woken_of(&woken) : timeline_fail(code);
}

static PyObject *timeline_commit_wait(PyObject *self, PyObject *stamp)
{
    timeloom_woken woken;
    int code;
    const timeloom_stamp *held = timeline_stamp(stamp);
    if (!held)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    code = timeloom_commit_wait(((Timeline *)self)->timeline, held, &woken);
    Py_END_ALLOW_THREADS
    return code == TIMELOOM_DONE ? woken_of(&woken) : timeline_fail(code);
}

static PyObject *timeline_next_period(PyObject *self, PyObject *args)
{
    long long period, start, last = INT64_MIN;
    PyObject *before;
    timeloom_woken woken;
    int code;
    if (!PyArg_ParseTuple(args, "LLO", &period, &start, &before))
        return NULL;
    if (before != Py_None && (last = PyLong_AsLongLong(before), PyErr_Occurred()))
        return NULL;
    timeloom_schedule schedule = {period, start, last};
    Py_BEGIN_ALLOW_THREADS
    code = timeloom_wait_until_next_period(((Timeline *)self)->timeline, &schedule, &woken);
    Py_END_ALLOW_THREADS
    return code == TIMELOOM_DONE ? woken_of(&woken) : timeline_fail(code);
}

/* (type of the binding, below_ns, above_ns, resolution_ns); the error includes the best
 * possible values. */
static PyObject *timeline_bind(PyObject *self, PyObject *args)
{
    PyObject *type;
    long long below, above, resolution;
    int code;
    if (!PyArg_ParseTuple(args, "OLLL", &type, &below, &above, &resolution))
        return NULL;
    if (!PyType_Check(type) || !PyType_IsSubtype((PyTypeObject *)type, (PyTypeObject *)binding_type)) {
        PyErr_SetString(PyExc_TypeError, "a type of bindings is wanted");
        return NULL;
    }
    timeloom_requirement need = {below, above, resolution}, possible = {0, 0, 0};
    timeloom_binding *bound = NULL;
    Py_BEGIN_ALLOW_THREADS
    code = timeloom_bind(((Timeline *)self)->timeline, &need, &bound, &possible);
    Py_END_ALLOW_THREADS
    if (code != TIMELOOM_DONE)
        return timeline_fail(code);
    Binding *made = timeline_new_object((PyTypeObject *)type);
    if (!made) {
        timeloom_unbind(bound);
        return NULL;
    }
    made->binding = bound;
    Py_INCREF(self);
    made->timeline = self;
    return (PyObject *)made;
}

static PyObject *timeline_timer(PyObject *self, PyObject *args)
{
    long long first, period;
    PyObject *fire;
    if (!PyArg_ParseTuple(args, "LLO", &first, &period, &fire))
        return NULL;
    Timer *made = timeline_new_object((PyTypeObject *)timer_type);
    if (!made)
        return NULL;
    Py_INCREF(self);
    made->timeline = self;
    Py_INCREF(fire);
    made->fire = fire;
    int code = timeloom_timer_start(((Timeline *)self)->timeline, first, period, on_timer, fire, &made->timer);
    if (code != TIMELOOM_DONE) {
        Py_DECREF(made);
        return timeline_fail(code);
    }
    return (PyObject *)made;
}

static PyMethodDef timeline_methods[] = {
    {"read", timeline_read, METH_NOARGS, "Reads the timeline: a Stamp."},
    {"read_strict", timeline_read_strict, METH_NOARGS, "As read; no two of these have the same estimate."},
    {"event", timeline_event, METH_NOARGS, "An event that happens now: (ticks of the local counter, Stamp)."},
    {"convert", timeline_convert, METH_O, "The Stamp of a past reading of the local counter, as it was known then."},
    {"_wait_until", timeline_wait_until, METH_O, NULL},
    {"_sleep", timeline_sleep, METH_O, NULL},
    {"_commit_wait", timeline_commit_wait, METH_O, NULL},
    {"_next_period", timeline_next_period, METH_VARARGS, NULL},
    {"_bind", timeline_bind, METH_VARARGS, NULL},
    {"_timer", timeline_timer, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL}};
static PyGetSetDef timeline_fields[] = {
    {"tai_offset_s", timeline_tai_offset, NULL, "TAI less UTC in seconds, or None when it is not known.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot timeline_slots[] = {{Py_tp_new, timeline_new},         {Py_tp_dealloc, timeline_free},
                                       {Py_tp_methods, timeline_methods}, {Py_tp_getset, timeline_fields},
                                       {0, NULL}};
static PyType_Spec timeline_spec = {"timeloom._timeline.Timeline", sizeof(Timeline), 0,
                                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, timeline_slots};

/* ---- The module -------------------------------------------------------------------- */

static PyObject *status_text(PyObject *module, PyObject *number)
{
    (void)module;
    unsigned long status = PyLong_AsUnsignedLong(number);
    if (PyErr_Occurred())
        return NULL;
    return PyUnicode_FromString(timeloom_status_text((uint32_t)status));
}

static PyMethodDef functions[] = {{"status_text", status_text, METH_O, "A status in words."},
                                  {"write", messages_write, METH_VARARGS, NULL},
                                  {"open", messages_open, METH_VARARGS, NULL},
                                  {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "timeloom._timeline", "See timeloom.timeline.", -1, functions, NULL, NULL, NULL, NULL};

static PyObject *add(PyObject *module, const char *name, PyType_Spec *spec)
{
    PyObject *type = PyType_FromSpec(spec);
    if (!type || PyModule_AddObjectRef(module, name, type) < 0) {
        Py_XDECREF(type);
        return NULL;
    }
    return type;
}

PyMODINIT_FUNC PyInit__timeline(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (!module)
        return NULL;
    error_type = PyErr_NewException("timeloom._timeline.Error", NULL, NULL);
    if (!error_type || PyModule_AddObjectRef(module, "Error", error_type) < 0
        || !(stamp_type = add(module, "Stamp", &stamp_spec)) || !(binding_type = add(module, "Binding", &binding_spec))
        || !(timer_type = add(module, "Timer", &timer_spec))
        || !(timeline_type = add(module, "Timeline", &timeline_spec)) || !add(module, "Degradation", &degradation_spec)
        || !(seal_type = add(module, "Seal", &seal_spec)) || !add(module, "Channel", &channel_spec)) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
