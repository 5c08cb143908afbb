/* Between the parts of the extension module timeloom._timeline. */
#ifndef TIMELOOM_PYTHON_TIMELINE_H
#define TIMELOOM_PYTHON_TIMELINE_H

#include <Python.h>
#include <timeloom.h>

/* Raises the module's Error with the last words of the library; NULL. */
PyObject *timeline_fail(int code);
/* What a Stamp holds; NULL with an exception when `object` is none. */
const timeloom_stamp *timeline_stamp(PyObject *object);
/* A Stamp that holds this; NULL with an exception. */
PyObject *timeline_stamp_of(const timeloom_stamp *stamp);
/* What a Timeline holds; NULL with an exception when `object` is none. */
const timeloom_timeline *timeline_of(PyObject *object);

extern PyType_Spec degradation_spec, seal_spec, channel_spec;
extern PyObject *seal_type;
PyObject *messages_write(PyObject *module, PyObject *args);
PyObject *messages_open(PyObject *module, PyObject *args);

#endif
