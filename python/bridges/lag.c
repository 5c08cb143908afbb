/* An FMU for tests, for FMI 2 and 3: a lag of first order, x' = (k u - x) / T, solved exactly.
   Of the standard's functions those do something that a co-simulation of it needs. */

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { U, X, T, K, VALUES };

static void *make(void)
{
    double *values = calloc(VALUES, sizeof *values);
    if (values) {
        values[T] = 1.0;
        values[K] = 1.0;
    }
    return values;
}

static int get(const double *values, const unsigned *references, size_t count, double *out)
{
    for (size_t at = 0; at < count; at++) {
        if (references[at] >= VALUES) return 3;
        out[at] = values[references[at]];
    }
    return 0;
}

static int set(double *values, const unsigned *references, size_t count, const double *in)
{
    for (size_t at = 0; at < count; at++) {
        if (references[at] >= VALUES || references[at] == X) return 3;
        values[references[at]] = in[at];
    }
    return 0;
}

static int step(double *values, double span)
{
    /* An FMU that fails: an invalid time constant. */
    if (!(span > 0) || !(values[T] > 0)) return 3;
    double end = values[K] * values[U];
    values[X] = end + (values[X] - end) * exp(-span / values[T]);
    return 0;
}

/* FMI 2.0.4, section 4.2. */
void *fmi2Instantiate(const char *name, int type, const char *guid, const char *resources, const void *functions,
                      int visible, int logging)
{
    (void)name, (void)resources, (void)functions, (void)visible, (void)logging;
    return type == 1 && strcmp(guid, "{lag}") == 0 ? make() : NULL;
}
void fmi2FreeInstance(void *it) { free(it); }
int fmi2SetupExperiment(void *it, int tolerant, double tolerance, double start, int stops, double stop)
{
    (void)it, (void)tolerant, (void)tolerance, (void)start, (void)stops, (void)stop;
    return 0;
}
int fmi2EnterInitializationMode(void *it) { return it ? 0 : 3; }
int fmi2ExitInitializationMode(void *it) { return it ? 0 : 3; }
int fmi2Terminate(void *it) { return it ? 0 : 3; }
int fmi2GetReal(void *it, const unsigned *references, size_t count, double *out) { return get(it, references, count, out); }
int fmi2SetReal(void *it, const unsigned *references, size_t count, const double *in) { return set(it, references, count, in); }
int fmi2DoStep(void *it, double at, double span, int keeps)
{
    (void)at, (void)keeps;
    return step(it, span);
}

/* FMI 3.0.2, section 4.2. */
void *fmi3InstantiateCoSimulation(const char *name, const char *token, const char *resources, _Bool visible,
                                  _Bool logging, _Bool events, _Bool early, const unsigned *intermediate,
                                  size_t count, void *environment, void *log, void *update)
{
    (void)name, (void)resources, (void)visible, (void)logging, (void)events, (void)early, (void)intermediate;
    (void)count, (void)environment, (void)log, (void)update;
    return strcmp(token, "{lag}") == 0 ? make() : NULL;
}
void fmi3FreeInstance(void *it) { free(it); }
int fmi3EnterInitializationMode(void *it, _Bool tolerant, double tolerance, double start, _Bool stops, double stop)
{
    (void)tolerant, (void)tolerance, (void)start, (void)stops, (void)stop;
    return it ? 0 : 3;
}
int fmi3ExitInitializationMode(void *it) { return it ? 0 : 3; }
int fmi3Terminate(void *it) { return it ? 0 : 3; }
int fmi3GetFloat64(void *it, const unsigned *references, size_t count, double *out, size_t values)
{
    return values == count ? get(it, references, count, out) : 3;
}
int fmi3SetFloat64(void *it, const unsigned *references, size_t count, const double *in, size_t values)
{
    return values == count ? set(it, references, count, in) : 3;
}
int fmi3DoStep(void *it, double at, double span, _Bool keeps, _Bool *event, _Bool *ends, _Bool *early, double *last)
{
    (void)keeps;
    *event = *early = 0;
    /* An FMU that requests to end: its input is out of range. */
    *ends = ((double *)it)[U] > 1000.0;
    *last = at + span;
    return step(it, span);
}

/* Readers ask for all functions of the standard. */
#define ABSENT(name) int name(void) { return 3; }
ABSENT(fmi2CancelStep) ABSENT(fmi2CompletedIntegratorStep) ABSENT(fmi2DeSerializeFMUstate)
ABSENT(fmi2EnterContinuousTimeMode) ABSENT(fmi2EnterEventMode) ABSENT(fmi2FreeFMUstate) ABSENT(fmi2GetBoolean)
ABSENT(fmi2GetBooleanStatus) ABSENT(fmi2GetContinuousStates) ABSENT(fmi2GetDerivatives)
ABSENT(fmi2GetDirectionalDerivative) ABSENT(fmi2GetEventIndicators) ABSENT(fmi2GetFMUstate)
ABSENT(fmi2GetInteger) ABSENT(fmi2GetIntegerStatus) ABSENT(fmi2GetNominalsOfContinuousStates)
ABSENT(fmi2GetRealOutputDerivatives) ABSENT(fmi2GetRealStatus) ABSENT(fmi2GetStatus) ABSENT(fmi2GetString)
ABSENT(fmi2GetStringStatus) ABSENT(fmi2GetTypesPlatform) ABSENT(fmi2GetVersion) ABSENT(fmi2NewDiscreteStates)
ABSENT(fmi2Reset) ABSENT(fmi2SerializeFMUstate) ABSENT(fmi2SerializedFMUstateSize) ABSENT(fmi2SetBoolean)
ABSENT(fmi2SetContinuousStates) ABSENT(fmi2SetDebugLogging) ABSENT(fmi2SetFMUstate) ABSENT(fmi2SetInteger)
ABSENT(fmi2SetRealInputDerivatives) ABSENT(fmi2SetString) ABSENT(fmi2SetTime)
ABSENT(fmi3ActivateModelPartition) ABSENT(fmi3CompletedIntegratorStep) ABSENT(fmi3DeserializeFMUState)
ABSENT(fmi3EnterConfigurationMode) ABSENT(fmi3EnterContinuousTimeMode) ABSENT(fmi3EnterEventMode)
ABSENT(fmi3EnterStepMode) ABSENT(fmi3EvaluateDiscreteStates) ABSENT(fmi3ExitConfigurationMode)
ABSENT(fmi3FreeFMUState) ABSENT(fmi3GetAdjointDerivative) ABSENT(fmi3GetBinary) ABSENT(fmi3GetBoolean)
ABSENT(fmi3GetClock) ABSENT(fmi3GetContinuousStateDerivatives) ABSENT(fmi3GetContinuousStates)
ABSENT(fmi3GetDirectionalDerivative) ABSENT(fmi3GetEventIndicators) ABSENT(fmi3GetFMUState)
ABSENT(fmi3GetFloat32) ABSENT(fmi3GetInt16) ABSENT(fmi3GetInt32) ABSENT(fmi3GetInt64) ABSENT(fmi3GetInt8)
ABSENT(fmi3GetIntervalDecimal) ABSENT(fmi3GetIntervalFraction) ABSENT(fmi3GetNominalsOfContinuousStates)
ABSENT(fmi3GetNumberOfContinuousStates) ABSENT(fmi3GetNumberOfEventIndicators)
ABSENT(fmi3GetNumberOfVariableDependencies) ABSENT(fmi3GetOutputDerivatives) ABSENT(fmi3GetShiftDecimal)
ABSENT(fmi3GetShiftFraction) ABSENT(fmi3GetString) ABSENT(fmi3GetUInt16) ABSENT(fmi3GetUInt32)
ABSENT(fmi3GetUInt64) ABSENT(fmi3GetUInt8) ABSENT(fmi3GetVariableDependencies) ABSENT(fmi3GetVersion)
ABSENT(fmi3InstantiateModelExchange) ABSENT(fmi3InstantiateScheduledExecution) ABSENT(fmi3Reset)
ABSENT(fmi3SerializeFMUState) ABSENT(fmi3SerializedFMUStateSize) ABSENT(fmi3SetBinary) ABSENT(fmi3SetBoolean)
ABSENT(fmi3SetClock) ABSENT(fmi3SetContinuousStates) ABSENT(fmi3SetDebugLogging) ABSENT(fmi3SetFMUState)
ABSENT(fmi3SetFloat32) ABSENT(fmi3SetInt16) ABSENT(fmi3SetInt32) ABSENT(fmi3SetInt64) ABSENT(fmi3SetInt8)
ABSENT(fmi3SetIntervalDecimal) ABSENT(fmi3SetIntervalFraction) ABSENT(fmi3SetShiftDecimal)
ABSENT(fmi3SetShiftFraction) ABSENT(fmi3SetString) ABSENT(fmi3SetTime) ABSENT(fmi3SetUInt16)
ABSENT(fmi3SetUInt32) ABSENT(fmi3SetUInt64) ABSENT(fmi3SetUInt8) ABSENT(fmi3UpdateDiscreteStates)
