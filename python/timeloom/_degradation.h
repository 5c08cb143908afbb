/* Between the two halves of the extension module timeloom._timeline. */
#ifndef TIMELOOM_PYTHON_DEGRADATION_H
#define TIMELOOM_PYTHON_DEGRADATION_H

#include <Python.h>
#include <timeloom.h>

/* Raises the module's Error with the last words of the library; NULL. */
PyObject *timeline_fail(int code);
/* What a Stamp holds; NULL with an exception when `object` is none. */
const timeloom_stamp *timeline_stamp(PyObject *object);

extern PyType_Spec degradation_spec;

#endif
