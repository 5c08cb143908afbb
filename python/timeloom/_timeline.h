/* Between the parts of the extension module timeloom._timeline. */
#ifndef TIMELOOM_PYTHON_TIMELINE_H
#define TIMELOOM_PYTHON_TIMELINE_H

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <timeloom.h>

/* Raises the module's Error with the last words of the library; NULL. */
PyObject *timeline_fail(int code);
/* An object of a type of the module's; NULL with an exception. And what ends one. */
void *timeline_new_object(PyTypeObject *type);
void timeline_free_object(PyObject *self);
/* What a Stamp holds; NULL with an exception when `object` is none. */
const timeloom_stamp *timeline_stamp(PyObject *object);
/* A Stamp that holds this; NULL with an exception. */
PyObject *timeline_stamp_of(const timeloom_stamp *stamp);
/* What a Timeline holds; NULL with an exception when `object` is none. */
const timeloom_timeline *timeline_of(PyObject *object);

extern PyType_Spec stamp_spec, degradation_spec, seal_spec, channel_spec;
extern PyObject *stamp_type, *seal_type;
PyObject *messages_write(PyObject *module, PyObject *args);
PyObject *messages_open(PyObject *module, PyObject *args);

#endif
