/* Declarations shared by the parts of the extension module timeloom._timeline. */
#ifndef TIMELOOM_PYTHON_TIMELINE_H
#define TIMELOOM_PYTHON_TIMELINE_H

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <timeloom.h>

/* Raises the module's Error with the library's last error message; returns NULL. */
PyObject *timeline_fail(int code);
/* Creates an object of a type of the module; NULL with an exception. And its destructor. */
void *timeline_new_object(PyTypeObject *type);
void timeline_free_object(PyObject *self);
/* Content of a Stamp; NULL with an exception if `object` is not one. */
const timeloom_stamp *timeline_stamp(PyObject *object);
/* Creates a Stamp with this content; NULL with an exception. */
PyObject *timeline_stamp_of(const timeloom_stamp *stamp);
/* Content of a Timeline; NULL with an exception if `object` is not one. */
const timeloom_timeline *timeline_of(PyObject *object);

extern PyType_Spec stamp_spec, degradation_spec, seal_spec, channel_spec;
extern PyObject *stamp_type, *seal_type;
PyObject *messages_write(PyObject *module, PyObject *args);
PyObject *messages_open(PyObject *module, PyObject *args);

#endif
