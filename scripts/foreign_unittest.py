"""Runs CPython's own tests and notes each verdict as a line of JSON.

    python3.11 foreign_unittest.py FILE [--without PREFIX].. NAME..

A file, and not the output, since tests print what they like.
"""

import argparse
import json
import unittest


class Noting(unittest.TextTestResult):
    """Writes a line as soon as a test is done, so that one that hangs loses no others."""

    file = None

    def note(self, test, verdict):
        line = json.dumps([test.id(), verdict]) + "\n"
        with open(self.file, "a", encoding="utf-8") as file:
            file.write(line)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.note(test, "pass")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.note(test, "fail")

    def addError(self, test, err):
        super().addError(test, err)
        self.note(test, "fail")

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.note(test, "fail")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.note(test, "skip")

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self.note(test, "pass")

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.note(test, "fail")


def flat(suite):
    for one in suite:
        if isinstance(one, unittest.TestSuite):
            yield from flat(one)
        else:
            yield one


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("--without", action="append", default=[])
    parser.add_argument("names", nargs="+")
    options = parser.parse_args()
    Noting.file = options.file
    suite = unittest.defaultTestLoader.loadTestsFromNames(options.names)
    chosen = (one for one in flat(suite) if not one.id().startswith(tuple(options.without)))
    unittest.TextTestRunner(resultclass=Noting, verbosity=2).run(unittest.TestSuite(chosen))


if __name__ == "__main__":
    main()
