"""Figures and tables of the five papers, beside what this project measures.

``docs/papers/rows.toml`` lists the papers and commands, and ``docs/papers/rows`` every figure and
table with the paper's values and the command that measures ours. This package runs the commands
(``python -m papers run``), stores their stamped output in ``docs/papers/output``, and writes the
pages ``docs/papers/*.md`` with their plots from the rows and the outputs alone (``python -m papers
write``). No value of ours is in the rows, and no row states if it was measured: both follow from
the outputs.

- ``rows`` parses and checks the list of rows.
- ``reader`` finds the value of a row in an output.
- ``outputs`` stores outputs, ``machine`` measures the state of the machine, ``run`` runs commands.
- ``answers`` decides the kind of each row; ``pages`` and ``plots`` show it.
- ``case`` is a command of the rows: it runs the voltage case and prints its figures.
"""
